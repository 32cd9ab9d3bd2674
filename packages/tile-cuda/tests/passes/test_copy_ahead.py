"""Copies ahead by the block's own threads: results never depend on the stages, and a missing wait is a found fault."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from tvm.tirx import stmt as S

import tile_core as tl
import tile_core.language as T
from tile_core.errors import SharedMemoryLimitError
from tile_core.errors.emulator import EmulatedRaceError, EmulatedUnwrittenError
from tile_core.ir import visit
from tile_core.ops.threads import called
from tile_core.passes import lower
from tile_core.passes.insert_barriers import is_barrier
from tile_core.passes.pipeline import build_pipeline
from tile_core.testing.faults import Plant
from tile_cuda.target import device_architecture

AMPERE = {"kind": "cuda", "arch": "sm_80"}
CHECKED = {"tile.emulate_check": True}


def gemm(
    m: Any, n: Any, k: Any, stages: int, dtype: str = "float16", *, tb: bool = False, threads: int = 64, block: int = 32
) -> Any:
    @T.prim_func
    def program(
        A: T.Tensor((m, k), dtype), B: T.Tensor((n, k) if tb else (k, n), dtype), C: T.Tensor((m, n), "float32")
    ):
        with T.Kernel(T.ceildiv(n, 64), T.ceildiv(m, 64), threads=threads) as (bx, by):
            a = T.alloc_shared((64, block), dtype)
            b = T.alloc_shared((64, block) if tb else (block, 64), dtype)
            c = T.alloc_fragment((64, 64), "float32")
            T.clear(c)
            for step in T.Pipelined(T.ceildiv(k, block), num_stages=stages):
                T.copy(A[by * 64, step * block], a)
                if tb:
                    T.copy(B[bx * 64, step * block], b)
                else:
                    T.copy(B[step * block, bx * 64], b)
                T.gemm(a, b, c, transpose_B=tb)
            T.copy(c, C[by * 64, bx * 64])

    return program


def halves(*shapes: tuple[int, ...]) -> list[torch.Tensor]:
    torch.manual_seed(5)
    return [torch.randn(shape).half() for shape in shapes]


def close(found: torch.Tensor, expected: torch.Tensor) -> None:
    torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-2)


def compiled(program: Any, target: Any = AMPERE, **configs: bool) -> Any:
    return tl.compile(program, target=target, execution="emulate", pass_configs={**CHECKED, **configs})


@pytest.mark.emulate
@pytest.mark.parametrize(("m", "n", "k", "tb"), [(70, 72, 200, False), (65, 8, 104, True), (1, 136, 31 * 8, False)])
def test_results_do_not_depend_on_the_stages(m: int, n: int, k: int, tb: bool) -> None:
    a, b = halves((m, k), (k, n))
    results = []
    for stages in (0, 1, 2, 3, 5):
        kernel, c = compiled(gemm(m, n, k, stages, tb=tb)), torch.full((m, n), float("nan"))
        kernel(a, b.T.contiguous() if tb else b, c)
        assert len(kernel.report()["copied_ahead"]) == (stages > 1)
        results.append(c)
    close(results[0], a.float() @ b.float())
    assert all(torch.equal(results[0], other) for other in results)


@pytest.mark.emulate
@pytest.mark.parametrize(
    ("arch", "dtype", "k", "threads", "width"),
    [
        ("sm_80", "float16", 100, 64, 8),
        ("sm_80", "float16", 102, 64, 4),
        ("sm_89", "float32", 101, 96, 4),
        ("sm_120", "float16", 98, 128, 4),
        ("sm_90", "float16", 98, 128, 4),
        ("sm_90", "float16", 104, 96, 16),
        ("sm_90", "float16", 104, 512, 16),
    ],
)
def test_rows_at_odd_places_are_copied_in_smaller_units(
    arch: str, dtype: str, k: int, threads: int, width: int
) -> None:
    """Where the tensor memory accelerator does not apply, also on architectures that have it."""
    program = gemm(70, 50, k, 3, dtype, tb=True, threads=threads)
    kernel = compiled(program, {"kind": "cuda", "arch": arch})
    assert f"cp_async<{width}>" in kernel.get_kernel_source()
    a, b = (x.to(getattr(torch, dtype)) for x in halves((70, k), (50, k)))
    c = torch.full((70, 50), float("nan"))
    kernel(a, b, c)
    close(c, a.float() @ b.float().T)


@pytest.mark.emulate
def test_an_operand_at_odd_bytes_keeps_its_copy_beside_one_that_does_not() -> None:
    kernel = compiled(gemm(70, 9, 40, 3))
    a, b = halves((70, 40), (40, 9))
    c = torch.full((70, 9), float("nan"))
    kernel(a, b, c)
    assert kernel.report()["copied_ahead"]
    close(c, a.float() @ b.float())


@pytest.fixture(scope="module")
def dynamic_kernel() -> Any:
    return compiled(gemm(T.dynamic("m"), T.dynamic("n"), T.dynamic("k"), 3))


@pytest.mark.emulate
@pytest.mark.parametrize("size", [(100, 72, 136), (64, 64, 0), (33, 35, 37), (0, 8, 8), (2, 264, 8)], ids=str)
def test_sizes_known_at_run_time(dynamic_kernel: Any, size: tuple[int, int, int]) -> None:
    m, n, k = size
    a, b = halves((m, k), (k, n))
    c = torch.full((m, n), float("nan"))
    dynamic_kernel(a, b, c)
    close(c, a.float() @ b.float())


@pytest.mark.emulate
def test_a_view_at_an_odd_address(dynamic_kernel: Any) -> None:
    flat, b = halves((129 * 64 + 1,), (64, 72))
    a, c = flat[1:].view(129, 64), torch.full((129, 72), float("nan"))
    dynamic_kernel(a, b, c)
    close(c, a.float() @ b.float())


@pytest.mark.emulate
def test_loops_that_another_loop_repeats_and_places_from_a_table() -> None:
    """Stages are free when the loop begins again, and a table that nothing writes may be read ahead."""

    @T.prim_func
    def program(
        A: T.Tensor((256, 64), "float16"),
        P: T.Tensor((4,), "int32"),
        B: T.Tensor((64, 64), "float16"),
        C: T.Tensor((2, 64, 64), "float32"),
    ):
        with T.Kernel(1, threads=64):
            a = T.alloc_shared((64, 32), "float16")
            b = T.alloc_shared((32, 64), "float16")
            c = T.alloc_fragment((64, 64), "float32")
            for turn in T.serial(2):
                T.clear(c)
                for k in T.Pipelined(4, num_stages=3):
                    row = P[k] * 64
                    half = k % 2 * 32
                    T.copy(A[row, half], a)
                    T.copy(B[half, 0], b)
                    T.gemm(a, b, c)
                T.copy(c, C[turn, 0, 0])

    kernel = compiled(program)
    a, b = halves((256, 64), (64, 64))
    table, c = torch.tensor([2, 0, 3, 1], dtype=torch.int32), torch.full((2, 64, 64), float("nan"))
    kernel(a, table, b, c)
    assert kernel.report()["copied_ahead"]
    expected = sum(
        a[row * 64 : row * 64 + 64, at % 2 * 32 :][:, :32].float() @ b[at % 2 * 32 :][:32].float()
        for at, row in enumerate(table.tolist())
    )
    close(c[0], expected)
    close(c[1], expected)


@pytest.mark.emulate
@pytest.mark.parametrize("kind", ["variable", "written"])
def test_what_is_not_known_ahead_keeps_its_place(kind: str) -> None:
    @T.prim_func
    def program(A: T.Tensor((64, 128), "float16"), P: T.Tensor((4,), "int32"), C: T.Tensor((64, 32), "float16")):
        with T.Kernel(1, threads=64):
            a = T.alloc_shared((64, 32), "float16")
            c = T.alloc_fragment((64, 32), "float16")
            at = T.alloc_var("int32", init=96)
            T.clear(c)
            for k in T.Pipelined(4, num_stages=3):
                T.copy(A[0, at if kind == "variable" else P[k] * 32], a)
                for i, j in T.Parallel(64, 32):
                    c[i, j] += a[i, j] * T.cast(k, "float16")
                at = at - 32
                if kind == "written":
                    for i in T.Parallel(4):
                        P[i] = (P[i] + 1) % 4
            T.copy(c, C)

    kernel = compiled(program)
    (a,) = halves((64, 128))
    c, table = torch.full((64, 32), float("nan")).half(), torch.zeros(4, dtype=torch.int32)
    kernel(a, table, c)
    assert not kernel.report()["copied_ahead"]
    order = [3, 2, 1, 0] if kind == "variable" else [0, 1, 2, 3]
    expected = sum(a[:, at * 32 :][:, :32].float() * k for k, at in enumerate(order))
    torch.testing.assert_close(c.float(), expected, rtol=1e-2, atol=2e-2)


@pytest.mark.parametrize("arch", ["sm_86", "sm_90"])
@pytest.mark.parametrize("k", [4096, 4100])
def test_stages_that_do_not_fit_are_refused(arch: str, k: int) -> None:
    """Whoever makes the copies; rows of 4100 elements are not for the tensor memory accelerator."""
    words = ["9 stages × 16384 B", f"a block has {101376 if arch == 'sm_86' else 232448}"]
    with pytest.raises(SharedMemoryLimitError) as raised:
        tl.compile(gemm(64, 64, k, 9, block=128), target={"kind": "cuda", "arch": arch}, execution="emulate")
    assert all(word in str(raised.value) for word in words), str(raised.value)


def test_stages_fit_where_tiles_share_their_place() -> None:
    """Together 120 KiB, of which no more than 96 KiB are needed at once."""

    @T.prim_func
    def program(A: T.Tensor((512, 64), "float16"), C: T.Tensor((128, 64), "float32")):
        with T.Kernel(1, threads=128):
            first = T.alloc_shared((128, 96), "float16")
            tile = T.alloc_shared((256, 64), "float16")
            c = T.alloc_fragment((128, 64), "float32")
            T.copy(A[0:128, 0:64], first[:, 0:64])
            T.copy(first[:, 0:64], c)
            for k in T.Pipelined(2, num_stages=3):
                T.copy(A[k * 256, 0], tile)
                for i, j in T.Parallel(128, 64):
                    c[i, j] += T.cast(tile[2 * i, j], "float32") * tile[2 * i + 1, j]
            T.copy(c, C)

    kernel = compiled(program, {"kind": "cuda", "arch": "sm_86"})
    (told,) = kernel.report()["copied_ahead"]
    assert told.endswith(": 3 stages")
    (a,) = halves((512, 64))
    c = torch.full((128, 64), float("nan"))
    kernel(a, c)
    pairs = a.float().view(2, 128, 2, 64)
    close(c, a[:128].float() + (pairs[:, :, 0] * pairs[:, :, 1]).sum(0))


def test_switched_off() -> None:
    assert "cp_async" not in compiled(gemm(64, 64, 64, 3), **{"tile.copy_ahead": False}).get_kernel_source()


def dropped(name: str, number: int = 0) -> Callable[[S.Stmt], S.Stmt]:
    """Without the `number`-th call of `name`, or barrier."""

    def mutate(body: S.Stmt) -> S.Stmt:
        seen = 0

        def evaluate(stmt: S.Evaluate, _mutator: Any) -> S.Stmt:
            nonlocal seen
            if not (is_barrier(stmt) if name == "barrier" else called(stmt) == name):
                return stmt
            seen += 1
            return visit.sequence([], stmt.span) if seen == number + 1 else stmt

        return visit.mutate(body, (S.Evaluate, evaluate))

    return mutate


@pytest.mark.emulate
@pytest.mark.parametrize("fault", [("cuda.cp_async_wait", 0), ("barrier", 1), ("cuda.cp_async_commit", 2), None])
def test_a_dropped_wait_is_found(monkeypatch: pytest.MonkeyPatch, fault: tuple[str, int] | None) -> None:
    planted = () if fault is None else (Plant(dropped(*fault)),)
    with monkeypatch.context() as patch:
        patch.setattr(lower, "build_pipeline", lambda *given: (*build_pipeline(*given), *planted))
        kernel = compiled(gemm(64, 64, 160, 3))
    a, b = halves((64, 160), (160, 64))
    c = torch.full((64, 64), float("nan"))
    if fault is None:
        kernel(a, b, c)
        close(c, a.float() @ b.float())
        return
    with pytest.raises((EmulatedRaceError, EmulatedUnwrittenError)):
        kernel(a, b, c)


@pytest.mark.compile
@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_120"])
def test_compiles_for(arch: str) -> None:
    pytest.importorskip("nvidia.cu13", reason="NVRTC is not installed")
    source = tl.compile(gemm(256, 256, 100, 3, tb=True), target={"kind": "cuda", "arch": arch}).get_kernel_source()
    assert ("cp.async.ca.shared.global" in source) == (arch != "sm_75")
    assert ("cp_async_wait<1>" in source) == (arch != "sm_75")


@pytest.mark.device
@pytest.mark.parametrize("size", [(1000, 1048, 4104), (1000, 1048, 1100), (257, 130, 98)], ids=str)
@pytest.mark.parametrize("stages", [2, 3, 4])
def test_on_the_device(size: tuple[int, int, int], stages: int) -> None:
    found, reason = device_architecture()
    if found is None:
        pytest.skip(reason)
    m, n, k = size
    configs = {"tile.specialize_warps": False}
    kernel = tl.compile(gemm(m, n, k, stages, tb=True, threads=128), target="cuda", pass_configs=configs)
    a, b = (x.cuda() for x in halves((m, k), (n, k)))
    c = torch.full((m, n), float("nan")).cuda()
    kernel(a, b, c)
    assert kernel.report()["copied_ahead"]
    torch.testing.assert_close(c, a.float() @ b.float().T, rtol=1e-3, atol=1e-2 * k**0.5)
