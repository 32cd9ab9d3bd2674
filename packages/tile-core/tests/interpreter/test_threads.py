"""Programs that tell threads apart: lockstep between statements, barriers and collective operations checked."""

# ruff: noqa: B007 - kernel code is traced, not run
from __future__ import annotations

import pytest
import torch
from tvm import ir

import tile_core.language as T
from tile_core.errors import BarrierMisuseError, DataRaceError, DivergentCollectiveError, NoReferenceMeaningError
from tile_core.frontend.builder import current_builder
from tile_core.language import threads

N = 64


def sync_threads():
    """The barrier that SIMT dialects export."""
    barrier = ir.Call(ir.Op.get("tirx.tvm_storage_sync"), [ir.StringImm("shared")], ret_ty=ir.PrimType("int32"))
    current_builder().evaluate(barrier)


def tensors():
    return torch.randn(N), torch.full((N,), float("nan"))


def test_threads_exchange_through_shared_memory(interpret):
    @T.prim_func
    def reverse(A: T.Tensor((N,), "float32"), B: T.Tensor((N,), "float32")):
        with T.Kernel(2, threads=32) as bx:
            tx = T.get_thread_binding(0)
            S = T.alloc_shared((32,), "float32")
            S[tx] = A[bx * 32 + tx]
            sync_threads()
            B[bx * 32 + tx] = S[31 - tx]

    A, B = tensors()
    interpret(reverse, A, B)
    assert torch.equal(B.view(2, 32), A.view(2, 32).flip(1))


def test_each_thread_has_its_own_variables(interpret):
    @T.prim_func
    def program(A: T.Tensor((N,), "float32"), B: T.Tensor((N,), "float32")):
        with T.Kernel(2, threads=32) as bx:
            tx = T.get_thread_binding(0)
            total = T.alloc_var("float32", init=0.0)
            local = T.alloc_local((2,), "float32")
            for k in T.serial(tx % 5):
                total += 1
            local[0] = total
            local[1] = A[bx * 32 + tx]
            if tx < 4:
                local[1] = 7.0
            B[bx * 32 + tx] = local[0] + local[1]

    A, B = tensors()
    interpret(program, A, B)
    expected = [t % 5 + (7.0 if t < 4 else A[b * 32 + t].item()) for b in range(2) for t in range(32)]
    torch.testing.assert_close(B, torch.tensor(expected))


def test_three_thread_axes(interpret):
    @T.prim_func
    def program(Out: T.Tensor((24,), "int32")):
        with T.Kernel(1, threads=(4, 3, 2)):
            x, y, z = T.get_thread_bindings()
            Out[x + 4 * (y + 3 * z)] = x + 10 * y + 100 * z

    out = torch.zeros(24, dtype=torch.int32)
    interpret(program, out)
    assert out.tolist() == [x + 10 * y + 100 * z for z in range(2) for y in range(3) for x in range(4)]


def test_tile_operations_and_parallel_loops_between(interpret):
    @T.prim_func
    def program(A: T.Tensor((N,), "float32"), B: T.Tensor((N,), "float32")):
        with T.Kernel(2, threads=32) as bx:
            tx = T.get_thread_binding(0)
            S = T.alloc_shared((32,), "float32")
            T.copy(A[bx * 32 : bx * 32 + 32], S)
            for i in T.Parallel(32):
                S[i] = S[i] * 2
            B[bx * 32 + tx] = S[tx]

    A, B = tensors()
    interpret(program, A, B)
    assert torch.equal(B, A * 2)


def test_atomics_of_threads(interpret):
    @T.prim_func
    def program(B: T.Tensor((3,), "int32")):
        with T.Kernel(2, threads=100):
            tx = T.get_thread_binding(0)
            T.atomic_add(B[tx % 3], 1)

    B = torch.zeros(3, dtype=torch.int32)
    interpret(program, B)
    assert B.tolist() == [68, 66, 66]


def test_a_barrier_under_a_condition_on_the_thread(interpret):
    @T.prim_func
    def program(A: T.Tensor((N,), "float32"), B: T.Tensor((N,), "float32")):
        with T.Kernel(2, threads=32):
            tx = T.get_thread_binding(0)
            if tx < 16:
                sync_threads()

    with pytest.raises(BarrierMisuseError, match="16 of 32 threads, at bx=0"):
        interpret(program, *tensors())


def test_a_barrier_under_a_uniform_condition(interpret):
    @T.prim_func
    def program(A: T.Tensor((N,), "float32"), B: T.Tensor((N,), "float32")):
        with T.Kernel(2, threads=32) as bx:
            tx = T.get_thread_binding(0)
            if bx == 1:
                sync_threads()
            B[tx] = 1.0

    A, B = tensors()
    interpret(program, A, B)
    assert (B[:32] == 1).all()


def test_a_tile_operation_under_a_condition_on_the_thread(interpret):
    @T.prim_func
    def program(A: T.Tensor((N,), "float32"), B: T.Tensor((N,), "float32")):
        with T.Kernel(1, threads=32):
            tx = T.get_thread_binding(0)
            S = T.alloc_shared((32,), "float32")
            if tx < 16:
                T.copy(A[0:32], S)

    with pytest.raises(DivergentCollectiveError, match="16 of 32 threads, which are no neighbouring whole warps"):
        interpret(program, *tensors())


def test_a_tile_operation_whose_region_depends_on_the_thread(interpret):
    @T.prim_func
    def program(A: T.Tensor((N,), "float32"), B: T.Tensor((N,), "float32")):
        with T.Kernel(1, threads=32):
            tx = T.get_thread_binding(0)
            T.copy(A[tx : tx + 32], B[0:32])

    with pytest.raises(DivergentCollectiveError, match="differs between threads"):
        interpret(program, *tensors())


def test_threads_that_use_one_element_in_one_statement(interpret):
    @T.prim_func
    def program(A: T.Tensor((N,), "float32"), B: T.Tensor((N,), "float32")):
        with T.Kernel(1, threads=32):
            tx = T.get_thread_binding(0)
            S = T.alloc_shared((32,), "float32")
            T.clear(S)
            S[tx] = S[31 - tx] + 1

    with pytest.raises(DataRaceError, match=r"threads .* write and read S\[31\]"):
        interpret(program, *tensors())


def test_threads_that_write_different_values(interpret):
    @T.prim_func
    def program(A: T.Tensor((N,), "float32"), B: T.Tensor((N,), "float32")):
        with T.Kernel(1, threads=32):
            tx = T.get_thread_binding(0)
            B[tx // 2] = tx

    with pytest.raises(DataRaceError, match=r"\(thread=0\) and \(thread=1\) write different values to B\[0\]"):
        interpret(program, *tensors())


def test_a_vendor_instruction_has_no_meaning_here(interpret):
    @T.prim_func
    def program(A: T.Tensor((N,), "float32"), B: T.Tensor((N,), "float32")):
        with T.Kernel(1, threads=32):
            current_builder().evaluate(ir.Call(ir.Op.get("tirx.cuda.thread_fence"), [], ret_ty="void"))

    with pytest.raises(NoReferenceMeaningError, match="tirx.cuda.thread_fence") as caught:
        interpret(program, *tensors())
    assert "current_builder" in str(caught.value)


def test_a_print_in_a_thread_program(interpret, capsys):
    @T.prim_func
    def program(A: T.Tensor((4,), "int32")):
        with T.Kernel(1, threads=4):
            tx = T.get_thread_binding(0)
            if tx > 1:
                T.print(A[tx], msg="value")

    interpret(program, torch.arange(4, dtype=torch.int32) * 10)
    assert capsys.readouterr().out.splitlines() == ["value: A = 20", "value: A = 30"]


def exchange_program(function, dtype="int32", count=64):
    @T.prim_func
    def program(Out: T.Tensor((count,), dtype)):
        with T.Kernel(1, threads=count):
            tx = T.get_thread_binding(0)
            value = function(tx)
            Out[tx] = value

    return program


def lanes(function, count=64):
    """What `function(lane, read)` gives for each thread, where `read(lane)` is the value of that lane of its warp."""
    found = []
    for thread in range(count):
        warp, lane = thread // 32 * 32, thread % 32
        found.append(function(lane, lambda source, warp=warp: (warp + source) * 3))
    return found


@pytest.mark.parametrize("width", [32, 8])
@pytest.mark.parametrize("delta", [1, 5])
def test_shuffles(interpret, width, delta):
    def up(lane, read):
        return read(lane - delta if lane % width >= delta else lane)

    def down(lane, read):
        return read(lane + delta if lane % width + delta < width else lane)

    def xor(lane, read):
        return read(lane ^ delta if lane ^ delta <= lane // width * width + width - 1 else lane)

    def broadcast(lane, read):
        return read(lane // width * width + delta % width)

    cases = {
        threads.shfl_up: up,
        threads.shfl_down: down,
        threads.shfl_xor: xor,
        threads.shfl_sync: broadcast,
    }
    for function, expected in cases.items():
        out = torch.zeros(64, dtype=torch.int32)
        interpret(exchange_program(lambda tx, f=function: f(tx * 3, delta, width)), out)
        assert out.tolist() == lanes(expected), function.__name__


def test_votes_and_reductions(interpret):
    cases = [
        (lambda tx: threads.any_sync(tx == 40), "bool", [0] * 32 + [1] * 32),
        (lambda tx: threads.all_sync(tx < 32), "bool", [1] * 32 + [0] * 32),
        (lambda tx: threads.ballot(tx % 32 < 2), "uint64", [3] * 64),
        (lambda tx: threads.activemask(), "uint64", [2**32 - 1] * 64),
        (lambda tx: threads.warp_reduce_sum(tx), "int32", [496] * 32 + [1520] * 32),
        (lambda tx: threads.warp_reduce_max(tx), "int32", [31] * 32 + [63] * 32),
        (lambda tx: threads.warp_reduce_bitor(tx), "int32", [31] * 32 + [63] * 32),
        (lambda tx: threads.syncthreads_count(tx < 50), "int32", [50] * 64),
        (lambda tx: threads.syncthreads_and(tx < 50), "bool", [0] * 64),
        (lambda tx: threads.syncthreads_or(tx == 63), "bool", [1] * 64),
    ]
    for function, dtype, expected in cases:
        out = torch.zeros(64, dtype=getattr(torch, dtype))
        interpret(exchange_program(function, dtype), out)
        assert out.tolist() == expected


def test_a_butterfly_sum(interpret):
    @T.prim_func
    def program(A: T.Tensor((64,), "float32"), Out: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=64):
            tx = T.get_thread_binding(0)
            total = T.alloc_var("float32", init=A[tx])
            for step in T.unroll(5):
                total += threads.shfl_xor(total, 16 >> step)
            Out[tx] = total

    A, out = torch.randn(64), torch.zeros(64)
    interpret(program, A, out)
    torch.testing.assert_close(out, A.view(2, 32).sum(1).repeat_interleave(32), rtol=1e-5, atol=1e-5)


def test_reading_a_thread_that_takes_no_part(interpret):
    @T.prim_func
    def program(Out: T.Tensor((32,), "int32")):
        with T.Kernel(1, threads=32):
            tx = T.get_thread_binding(0)
            if tx < 16:
                value = threads.shfl_down(tx, 1)
                Out[tx] = value

    with pytest.raises(BarrierMisuseError, match="thread 15 reads the value of thread 16, which takes no part"):
        interpret(program, torch.zeros(32, dtype=torch.int32))


@pytest.mark.parametrize(("count", "fails"), [(None, True), (16, False), (20, True)])
def test_named_barriers_count_their_threads(interpret, count, fails):
    @T.prim_func
    def program(Out: T.Tensor((32,), "int32")):
        with T.Kernel(1, threads=32):
            tx = T.get_thread_binding(0)
            if tx < 16:
                threads.sync_threads(1, count)
            Out[tx] = tx

    out = torch.zeros(32, dtype=torch.int32)
    if fails:
        with pytest.raises(BarrierMisuseError, match="16 of 32"):
            interpret(program, out)
    else:
        interpret(program, out)
        assert out.tolist() == list(range(32))


def test_a_barrier_without_thread_indices_does_nothing(interpret):
    @T.prim_func
    def program(Out: T.Tensor((1,), "int32")):
        with T.Kernel(1, threads=32) as bx:
            if bx == 0:
                threads.sync_threads()
                threads.sync_warp()
            Out[0] = 7

    out = torch.zeros(1, dtype=torch.int32)
    interpret(program, out)
    assert out.item() == 7
