"""When copies are made ahead of their pipeline, and when they must not be: results are the same either way."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from tvm import ir

import tile_core as tl
import tile_core.language as T
from tile_core.device import split_launches
from tile_core.jit.artifact import CompileRequest
from tile_core.passes.lower import lower, lower_spares_last
from tile_core.plugins.manager import backend
from tile_core.targets import select_target

M = N = K = 128
BK = 64
TARGET = {"kind": "cuda", "arch": "sm_90"}
Run = Callable[..., int]


def halves(*shapes: tuple[int, ...]) -> list[torch.Tensor]:
    torch.manual_seed(3)
    return [torch.randn(shape).half() for shape in shapes]


def close(found: torch.Tensor, expected: torch.Tensor) -> None:
    torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-2)


def poisoned(*shape: int) -> torch.Tensor:
    return torch.full(shape, float("nan"))


def test_a_tensor_that_the_kernel_writes_is_not_read_ahead(run: Run) -> None:
    @T.prim_func
    def program(A: T.Tensor((M, K), "float16"), B: T.Tensor((K, N), "float16"), C: T.Tensor((M, N), "float32")):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((M, BK), "float16")
            b = T.alloc_shared((BK, N), "float16")
            c = T.alloc_fragment((M, N), "float32")
            T.clear(c)
            for k in T.Pipelined(2, num_stages=2):
                T.copy(A[0, k * BK], a)
                T.copy(B[k * BK, 0], b)
                T.gemm(a, b, c)
                for i, j in T.Parallel(M, BK):
                    if k == 0:
                        A[i, BK + j] = a[i, j]
            T.copy(c, C)

    a, b = halves((M, K), (K, N))
    c, left = poisoned(M, N), a[:, :BK].float()
    run(program, a, b, c)
    close(c, left @ b[:BK].float() + left @ b[BK:].float())


@pytest.mark.parametrize("kind", ["variable", "written", "exit"])
def test_what_only_the_block_knows_keeps_its_copies(kind: str, run: Run) -> None:
    @T.prim_func
    def program(
        A: T.Tensor((M, K), "float16"),
        B: T.Tensor((K, N), "float16"),
        P: T.Tensor((2,), "int32"),
        C: T.Tensor((M, N), "float32"),
    ):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((M, BK), "float16")
            b = T.alloc_shared((BK, N), "float16")
            c = T.alloc_fragment((M, N), "float32")
            at = T.alloc_var("int32", init=BK)
            T.clear(c)
            for k in T.Pipelined(3 if kind == "exit" else 2, num_stages=2):
                if kind == "exit":  # noqa: SIM102 - the first is decided while tracing, the second by the kernel
                    if k >= 2:
                        break
                start = k * BK if kind == "exit" else P[k] * BK if kind == "written" else at
                T.copy(A[0, start], a)
                T.copy(B[start, 0], b)
                T.gemm(a, b, c)
                at = at - BK
                if kind == "written":
                    P[1] = 0
            T.copy(c, C)

    a, b = halves((M, K), (K, N))
    c = poisoned(M, N)
    assert run(program, a, b, torch.tensor([1, 7 * (kind == "written")], dtype=torch.int32), c) == 0
    close(c, a.float() @ b.float())


def test_tables_and_lengths_that_nothing_writes_are_read_ahead(run: Run) -> None:
    pages, longest = 5, 4

    @T.prim_func
    def program(
        A: T.Tensor((64, longest * 64), "float16"),
        B: T.Tensor((pages, 64, 64), "float16"),
        P: T.Tensor((3, longest), "int32"),
        L: T.Tensor((3,), "int32"),
        C: T.Tensor((3, 64, 64), "float32"),
    ):
        with T.Kernel(3, threads=128) as i:
            a = T.alloc_shared((64, 64), "float16")
            b = T.alloc_shared((64, 64), "float16")
            c = T.alloc_fragment((64, 64), "float32")
            T.clear(c)
            for k in T.Pipelined(L[i], num_stages=2):
                T.copy(A[0, k * 64], a)
                T.copy(B[P[i, k], :, :], b)
                T.gemm(a, b, c)
            T.copy(c, C[i, :, :])

    a, b = halves((64, longest * 64), (pages, 64, 64))
    table = torch.tensor([[4, 2, 0, 9], [1, 1, -1, 9], [9, 9, 9, 9]], dtype=torch.int32)
    c = poisoned(3, 64, 64)
    assert run(program, a, b, table, torch.tensor([3, 3, 0], dtype=torch.int32), c) == 1
    left = a.float().reshape(64, longest, 64).transpose(0, 1)
    named = [[b[page].float() if 0 <= page < pages else torch.zeros(64, 64) for page in row] for row in table.tolist()]
    expected = [sum(left[k] @ named[i][k] for k in range(length)) for i, length in enumerate((3, 3))]
    close(c, torch.stack([*expected, torch.zeros(64, 64)]))


def test_a_pipeline_that_another_loop_repeats(run: Run) -> None:
    @T.prim_func
    def program(A: T.Tensor((256, K), "float16"), B: T.Tensor((K, 256), "float16"), C: T.Tensor((256, 256), "float32")):
        with T.Kernel(3, threads=128) as bx:
            a = T.alloc_shared((64, BK), "float16")
            b = T.alloc_shared((BK, 64), "float16")
            c = T.alloc_fragment((64, 64), "float32")
            for turn in T.serial(6):
                tile = turn * 3 + bx
                if tile < 16:
                    T.clear(c)
                    for k in T.Pipelined(2, num_stages=3):
                        T.copy(A[(tile // 4) * 64, k * BK], a)
                        T.copy(B[k * BK, (tile % 4) * 64], b)
                        T.gemm(a, b, c)
                    T.copy(c, C[(tile // 4) * 64, (tile % 4) * 64])

    a, b = halves((256, K), (K, 256))
    c = poisoned(256, 256)
    assert run(program, a, b, c) == 1
    close(c, a.float() @ b.float())


def converted() -> Any:
    """C = A half(B), where integers arrive ahead and are converted by threads."""

    @T.prim_func
    def program(A: T.Tensor((M, K), "float16"), B: T.Tensor((K, N), "int8"), C: T.Tensor((M, N), "float32")):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((M, BK), "float16")
            whole = T.alloc_shared((BK, N), "int8")
            b = T.alloc_shared((BK, N), "float16")
            c = T.alloc_fragment((M, N), "float32")
            T.clear(c)
            for k in T.Pipelined(2, num_stages=2):
                T.copy(A[0, k * BK], a)
                T.copy(B[k * BK, 0], whole)
                for i, j in T.Parallel(BK, N):
                    b[i, j] = T.cast(whole[i, j], "float16")
                T.gemm(a, b, c)
            T.copy(c, C)

    return program


def test_tiles_that_threads_read_themselves(run: Run) -> None:
    """Every lane has read before a stage is given back."""
    (a,) = halves((M, K))
    b, c = torch.randint(-8, 8, (K, N), dtype=torch.int8), poisoned(M, N)
    assert run(converted(), a, b, c) == 1
    close(c, a.float() @ b.float())


def test_who_gives_a_stage_back() -> None:
    """Each of four warps what threads read; the warpgroup, for all of them, what its products read."""
    pytest.importorskip("nvidia.cu13", reason="NVRTC is not installed")
    source = tl.compile(converted(), target=TARGET).get_kernel_source()
    counts = dict(re.findall(r"tile_mbarrier_init\(&(empty\w*)\[0\], (\d+)\)", source))
    assert counts == {"empty": "4", "empty_01": "1"}


def dynamic() -> Any:
    m, n, k = T.dynamic("m"), T.dynamic("n"), T.dynamic("k")

    @T.prim_func
    def program(A: T.Tensor((m, k), "float16"), B: T.Tensor((k, n), "float16"), C: T.Tensor((m, n), "float32")):
        with T.Kernel(T.ceildiv(n, 64), T.ceildiv(m, 64), threads=128) as (bx, by):
            a = T.alloc_shared((64, BK), "float16")
            b = T.alloc_shared((BK, 64), "float16")
            c = T.alloc_fragment((64, 64), "float32")
            T.use_swizzle(4)
            T.clear(c)
            for step in T.Pipelined(T.ceildiv(k, BK), num_stages=3):
                T.copy(A[by * 64, step * BK], a)
                T.copy(B[step * BK, bx * 64], b)
                T.gemm(a, b, c)
            T.copy(c, C[by * 64, bx * 64])

    return program


@pytest.fixture(scope="module")
def dynamic_kernel() -> Any:
    return tl.compile(dynamic(), target=TARGET, execution="emulate", pass_configs={"tile.emulate_check": True})


@pytest.mark.parametrize("size", [(100, 72, 136), (64, 64, 0), (33, 35, 37), (0, 8, 8), (200, 264, 72)], ids=str)
def test_sizes_known_at_run_time(dynamic_kernel: Any, size: tuple[int, int, int]) -> None:
    """Sizes that tensor maps take and sizes that they do not, by one kernel."""
    m, n, k = size
    a, b = halves((m, k), (k, n))
    c = poisoned(m, n)
    dynamic_kernel(a, b, c)
    close(c, a.float() @ b.float())


def test_a_view_at_an_odd_address(dynamic_kernel: Any) -> None:
    flat, b = halves((129 * 64 + 1,), (64, 72))
    a, c = flat[1:].view(129, 64), poisoned(129, 72)
    dynamic_kernel(a, b, c)
    close(c, a.float() @ b.float())


def test_switched_off() -> None:
    kernel = tl.compile(dynamic(), target=TARGET, execution="emulate", pass_configs={"tile.specialize_warps": False})
    a, b = halves((70, 64), (64, 72))
    c = poisoned(70, 72)
    kernel(a, b, c)
    assert kernel.report()["specialized_warps"] == 0
    close(c, a.float() @ b.float())


@pytest.mark.parametrize("arch", ["sm_80", "sm_90", "sm_100", "sm_120"])
def test_compiles_for(arch: str) -> None:
    pytest.importorskip("nvidia.cu13", reason="NVRTC is not installed")
    source = tl.compile(dynamic(), target={"kind": "cuda", "arch": arch}).get_kernel_source()
    assert ("tma_load" in source) == (arch != "sm_80")
    assert ("wgmma" in source) == (arch == "sm_90")


def test_a_ticket_is_drawn_once(run: Run) -> None:
    """A block's atomic is not repeated by the thread that copies."""

    @T.prim_func
    def program(
        A: T.Tensor((256, K), "float16"),
        B: T.Tensor((K, 64), "float16"),
        Q: T.Tensor((1,), "int32"),
        C: T.Tensor((256, 64), "float32"),
    ):
        with T.Kernel(4, threads=128):
            a = T.alloc_shared((64, BK), "float16")
            b = T.alloc_shared((BK, 64), "float16")
            c = T.alloc_fragment((64, 64), "float32")
            x = T.atomic_add(Q[0], 1, return_prev=True)
            T.clear(c)
            for k in T.Pipelined(2, num_stages=2):
                T.copy(A[x * 64, k * BK], a)
                T.copy(B[k * BK, 0], b)
                T.gemm(a, b, c)
            T.copy(c, C[x * 64, 0])

    a, b = halves((256, K), (K, 64))
    c = poisoned(256, 64)
    assert run(program, a, b, torch.zeros(1, dtype=torch.int32), c) == 0
    close(c, a.float() @ b.float())


def test_a_tensor_that_is_written_by_another_name_is_not_read_ahead(run: Run) -> None:
    @T.prim_func
    def program(A: T.Tensor((64, 256), "float16"), B: T.Tensor((256, 64), "float16"), C: T.Tensor((64, 64), "float32")):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((64, 64), "float16")
            b = T.alloc_shared((64, 64), "float16")
            c = T.alloc_fragment((64, 64), "float32")
            flat = T.reshape(A, (64 * 256,))
            T.clear(c)
            for k in T.Pipelined(4, num_stages=3):
                T.copy(A[0, k * 64], a)
                T.copy(B[k * 64, 0], b)
                T.gemm(a, b, c)
                for i, j in T.Parallel(64, 64):
                    if k < 3:
                        flat[i * 256 + (k + 1) * 64 + j] = T.float16(1)
            T.copy(c, C)

    a, b = halves((64, 256), (256, 64))
    c, seen = poisoned(64, 64), a.clone()
    seen[:, 64:] = 1
    run(program, a, b, c)
    close(c, seen.float() @ b.float())


@pytest.mark.parametrize("how", ["name", "condition", "bound"])
def test_a_result_that_is_read_again(how: str, run: Run) -> None:
    """A result that a name, a condition or a bound reads is in memory by then."""

    @T.prim_func
    def program(
        A: T.Tensor((64, K), "float16"),
        B: T.Tensor((K, 64), "float16"),
        C: T.Tensor((64, 64), "float32"),
        D: T.Tensor((128,), "float32"),
    ):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((64, BK), "float16")
            b = T.alloc_shared((BK, 64), "float16")
            c = T.alloc_fragment((64, 64), "float32")
            T.clear(c)
            for k in T.Pipelined(2, num_stages=2):
                T.copy(A[0, k * BK], a)
                T.copy(B[k * BK, 0], b)
                T.gemm(a, b, c)
            T.copy(c, C)
            if how == "name":
                x = C[63, 63]
                for i in T.Parallel(128):
                    D[i] = x
            elif how == "condition":
                if C[63, 63] > 0.0:
                    T.fill(D, 128.0)
                else:
                    T.fill(D, 1.0)
            else:
                for _turn in T.serial(T.cast(C[63, 63], "int32")):
                    for i in T.Parallel(128):
                        D[i] = D[i] + 1.0

    a, b = torch.ones(64, K).half(), torch.ones(K, 64).half()
    c, d = torch.zeros(64, 64), torch.zeros(128)
    run(program, a, b, c, d)
    close(d, torch.full((128,), 128.0))


def test_a_product_that_became_a_loop_is_not_counted_as_in_flight(run: Run) -> None:
    """The first product is waited for by counting those behind it, which the second one, in scalar code, is not."""

    @T.prim_func
    def program(
        A: T.Tensor((64, K), "float16"),
        B: T.Tensor((K, 64), "float16"),
        E: T.Tensor((K, 64), "float16"),
        C: T.Tensor((64, 64), "float32"),
        D: T.Tensor((64,), "float16"),
    ):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((64, BK), "float16")
            b = T.alloc_shared((BK, 64), "float16")
            e = T.alloc_shared((BK, 64), "float16")
            s = T.alloc_fragment((64, 64), "float32")
            w = T.alloc_fragment((64, BK), "float16")
            c = T.alloc_fragment((64, 64), "float32")
            T.clear(c)
            T.clear(w)
            for k in T.Pipelined(2, num_stages=2):
                T.copy(A[0, k * BK], a)
                T.copy(B[k * BK, 0], b)
                T.gemm(a, b, s, clear_accum=True)
                T.copy(E[k * BK, 0], e)
                T.gemm(w, e, c)
                T.copy(s, w)
                for i in T.Parallel(64):
                    D[i] = w[i, 3]
            T.gemm(w, e, c)
            T.copy(c, C)

    a, b, e = halves((64, K), (K, 64), (K, 64))
    a, b = a / 8, b / 8
    c, d = poisoned(64, 64), torch.zeros(64).half()
    run(program, a, b, e, c, d)
    first, second = ((a[:, at : at + BK].float() @ b[at : at + BK].float()).half() for at in (0, BK))
    close(c, (first.float() + second.float()) @ e[BK:].float())


@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_spares_come_out_the_same_when_they_are_lowered_last(arch: str) -> None:
    @T.prim_func
    def program(
        A: T.Tensor((M, K), "float16"),
        B: T.Tensor((K, N), "float16"),
        C: T.Tensor((M, N), "float16"),
        D: T.Tensor((M, N), "float16"),
    ):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((M, BK), "float16")
            b = T.alloc_shared((BK, N), "float16")
            c = T.alloc_fragment((M, N), "float32")
            T.clear(c)
            for k in T.Pipelined(2, num_stages=2):
                T.copy(A[0, k * BK], a)
                T.copy(B[k * BK, 0], b)
                T.gemm(a, b, c)
            T.copy(c, C)
        with T.Kernel(M, threads=32) as row:
            for j in T.Parallel(N):
                D[row, j] = C[row, j] * T.float16(2)

    request = CompileRequest(select_target({"kind": "cuda", "arch": arch}), {}, (), "native")
    together, facts = lower(program, request, backend("cuda"))
    apart = lower_spares_last(program, request, backend("cuda"))
    whole, told = apart.whole()
    ir.assert_structural_equal(whole, together)
    assert (apart.has_spares, told) == (True, facts)
    kernels = split_launches(whole).kernels
    assert [kernel.is_spare for kernel in kernels] == [False] * 2 + [True] * (len(kernels) - 2)
    first = split_launches(apart.main).kernels
    assert [str(kernel.func) for kernel in first] == [str(kernel.func) for kernel in kernels[: len(first)]]
