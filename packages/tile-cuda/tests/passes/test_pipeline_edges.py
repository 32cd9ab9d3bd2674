"""Pipelines at the edges of what copies ahead and staged results can do."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch

import tile_core as tl
import tile_core.language as T
from tile_core.errors import SharedMemoryLimitError

K = 128
Run = Callable[..., int]


def halves(*shapes: tuple[int, ...]) -> list[torch.Tensor]:
    torch.manual_seed(3)
    return [torch.randn(shape).half() for shape in shapes]


def close(found: torch.Tensor, expected: torch.Tensor) -> None:
    torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-2)


def close_or_nan(found: torch.Tensor, expected: torch.Tensor) -> None:
    torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-2, equal_nan=True)


def poisoned(*shape: int) -> torch.Tensor:
    return torch.full(shape, float("nan"))


def test_results_that_a_loop_stores_to_one_place(run: Run) -> None:
    @T.prim_func
    def program(A: T.Tensor((64, K), "float16"), B: T.Tensor((K, 64), "float16"), C: T.Tensor((64, 64), "float32")):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((64, 32), "float16")
            b = T.alloc_shared((32, 64), "float16")
            c = T.alloc_fragment((64, 64), "float32")
            T.clear(c)
            for k in T.Pipelined(4, num_stages=3):
                T.copy(A[0, k * 32], a)
                T.copy(B[k * 32, 0], b)
                T.gemm(a, b, c)
                T.copy(c, C)

    a, b = halves((64, K), (K, 64))
    c = poisoned(64, 64)
    assert run(program, a, b, c) == 1
    close(c, a.float() @ b.float())


def test_stages_that_boxes_cannot_begin_at(run: Run) -> None:
    @T.prim_func
    def program(A: T.Tensor((12, 24), "float16"), S: T.Tensor((24,), "float32")):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((3, 24), "float16")
            s = T.alloc_fragment((24,), "float32")
            T.clear(s)
            for k in T.Pipelined(4, num_stages=2):
                T.copy(A[k * 3, 0], a)
                for j in T.Parallel(24):
                    s[j] = s[j] + a[0, j] + a[1, j] + a[2, j]
            T.copy(s, S)

    (a,) = halves((12, 24))
    s = poisoned(24)
    assert run(program, a, s) == 0
    close(s, a.float().sum(0))


@pytest.mark.parametrize("op", ["reduce", "cumsum", "transpose"])
def test_ops_that_number_the_axes_of_a_tile(op: str, run: Run) -> None:
    @T.prim_func
    def program(A: T.Tensor((64, 256), "float32"), Out: T.Tensor((64, 64), "float32")):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((64, 64), "float32")
            q = T.alloc_shared((64, 64), "float32")
            s = T.alloc_fragment((64,), "float32")
            T.clear(s)
            for k in T.Pipelined(4, num_stages=2):
                T.copy(A[0, k * 64], a)
                if op == "reduce":
                    T.reduce_sum(a, s, dim=0, clear=False)
                elif op == "cumsum":
                    T.cumsum(a, q, dim=1)
                else:
                    T.transpose(a, q)
            if op == "reduce":
                for i, j in T.Parallel(64, 64):
                    Out[i, j] = s[j]
            else:
                T.copy(q, Out)

    torch.manual_seed(5)
    a, out = torch.randn(64, 256), poisoned(64, 64)
    run(program, a, out)
    blocks, last = a.view(64, 4, 64), a[:, 192:]
    expected = {"reduce": blocks.sum((0, 1)).expand(64, 64), "cumsum": last.cumsum(1), "transpose": last.T}
    close(out, expected[op])


def test_a_tile_that_a_condition_reads_behind_the_loop(run: Run) -> None:
    @T.prim_func
    def program(A: T.Tensor((64, 128), "float32"), D: T.Tensor((128,), "float32")):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((64, 64), "float32")
            s = T.alloc_fragment((64,), "float32")
            T.clear(s)
            for k in T.Pipelined(2, num_stages=2):
                T.copy(A[0, k * 64], a)
                for j in T.Parallel(64):
                    s[j] = s[j] + a[0, j]
            if a[5, 63] > 0.0:
                T.fill(D, 1.0)
            else:
                T.fill(D, 2.0)

    a, d = torch.ones(64, 128), poisoned(128)
    run(program, a, d)
    close(d, torch.ones(128))


def test_a_result_before_a_ring_that_fills_shared_memory(run: Run) -> None:
    @T.prim_func
    def program(
        A: T.Tensor((128, 512), "float16"),
        B: T.Tensor((512, 128), "float16"),
        C: T.Tensor((128, 128), "float32"),
        D: T.Tensor((128, 128), "float32"),
    ):
        with T.Kernel(1, threads=128):
            a0 = T.alloc_shared((128, 64), "float16")
            b0 = T.alloc_shared((64, 128), "float16")
            a = T.alloc_shared((128, 64), "float16")
            b = T.alloc_shared((64, 128), "float16")
            c = T.alloc_fragment((128, 128), "float32")
            T.copy(A[0, 0], a0)
            T.copy(B[0, 0], b0)
            T.clear(c)
            T.gemm(a0, b0, c)
            T.copy(c, D)
            T.clear(c)
            for k in T.Pipelined(8, num_stages=6):
                T.copy(A[0, k * 64], a)
                T.copy(B[k * 64, 0], b)
                T.gemm(a, b, c)
            T.copy(c, C)

    a, b = halves((128, 512), (512, 128))
    c, d = poisoned(128, 128), poisoned(128, 128)
    assert run(program, a, b, c, d) == 1
    close(c, a.float() @ b.float())
    close(d, a[:, :64].float() @ b[:64].float())


def shifted_product(column: Any, row: int = 0, result: Any = 0, *, by_name: bool = False) -> Any:
    """C[row:, result:] = A[:, column:] @ B for a tile of A that begins anywhere in its rows."""

    @T.prim_func
    def program(
        A: T.Tensor((128, 256), "float16"),
        B: T.Tensor((K, 64), "float16"),
        C: T.Tensor((128, 136), "float32"),
        given: T.int32,
    ):
        with T.Kernel(2, threads=128) as by:
            a = T.alloc_shared((64, 32), "float16")
            b = T.alloc_shared((32, 64), "float16")
            c = T.alloc_fragment((64, 64), "float32")
            T.clear(c)
            for k in T.Pipelined(K // 32, num_stages=3):
                first = k * 32 + (given if column is None else column)
                if by_name:
                    T.copy(A[by * 64, first], a)
                else:
                    T.copy(A[by * 64, k * 32 + (given if column is None else column)], a)
                T.copy(B[k * 32, 0], b)
                T.gemm(a, b, c)
            T.copy(c, C[by * 64 + row, given if result is None else result])

    return program


@pytest.mark.emulate
@pytest.mark.parametrize(
    ("column", "row", "result", "given", "boxes"),
    [
        (8, 0, 8, 0, (2, 1)),
        (4, 0, 0, 0, (1, 1)),
        (1, 0, 4, 0, (1, 1)),
        (0, 0, 3, 0, (2, 0)),
        (0, -5, 0, 0, (2, 0)),
        (None, 0, None, 5, (1, 0)),
        (None, 0, None, -8, (1, 0)),
    ],
)
def test_boxes_that_begin_between_units_or_before_a_tensor_are_the_threads(
    column: int | None, row: int, result: int | None, given: int, boxes: tuple[int, int], run: Run
) -> None:
    """The copy engine ends a kernel at such places, with an illegal instruction."""
    a, b = halves((128, 256), (K, 64))
    c = poisoned(128, 136)
    program = shifted_product(column, row, result)
    assert run(program, a, b, c, given) == 1
    start, at = given if column is None else column, given if result is None else result
    wide = torch.zeros(128, 512)
    wide[:, 128:384] = a
    expected = poisoned(256, 272)
    expected[64 + row : 192 + row, 64 + at : 128 + at] = wide[:, 128 + start : 128 + start + K] @ b.float()
    close_or_nan(c, expected[64:192, 64:200])
    source = tl.compile(program, target={"kind": "cuda", "arch": "sm_90"}, execution="emulate").get_kernel_source()
    fast = source[: source.index("__global__", source.index("__global__") + 1)]
    assert (fast.count("tile_tma_load_2d(&"), "tile_tma_store_2d(" in fast) == (boxes[0], bool(boxes[1]))


@pytest.mark.parametrize(("rows", "ahead"), [(2**31, 1), (2**31 + 64, 0)])
def test_rows_that_int32_does_not_number_are_the_threads(rows: int, ahead: int) -> None:
    """Coordinates of the copy engine are int32."""

    @T.prim_func
    def program(A: T.Tensor((rows, 64), "float16"), B: T.Tensor((64, 64), "float16"), C: T.Tensor((64, 64), "float32")):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((64, 64), "float16")
            b = T.alloc_shared((64, 64), "float16")
            c = T.alloc_fragment((64, 64), "float32")
            T.clear(c)
            for k in T.Pipelined(4, num_stages=2):
                T.copy(A[rows - 256 + k * 64, 0], a)
                T.copy(B, b)
                T.gemm(a, b, c)
            T.copy(c, C)

    kernel = tl.compile(program, target={"kind": "cuda", "arch": "sm_90"}, execution="emulate")
    fast = kernel.get_kernel_source().split("__global__")[1]
    assert len(re.findall(r"tile_tma_load\w*_2d\(&", fast)) == 1 + ahead
    assert kernel.report()["specialized_warps"] == 1


@pytest.mark.emulate
def test_a_named_place_is_a_place(run: Run) -> None:
    a, b = halves((128, 256), (K, 64))
    c = poisoned(128, 136)
    assert run(shifted_product(8, by_name=True), a, b, c, 0) == 1
    close(c[:, :64], a[:, 8 : 8 + K].float() @ b.float())


@pytest.mark.parametrize(("arch", "stages"), [("sm_90", 5), ("sm_100", 8)])
def test_a_pipeline_that_does_not_fit_says_how_many_bytes_its_stages_take(arch: str, stages: int) -> None:
    @T.prim_func
    def program(
        A: T.Tensor((128, 1024), "float16"), B: T.Tensor((1024, 256), "float16"), C: T.Tensor((128, 256), T.float16)
    ):
        with T.Kernel(1, threads=256):
            a = T.alloc_shared((128, 128), "float16")
            b = T.alloc_shared((128, 256), "float16")
            c = T.alloc_fragment((128, 256), "float32")
            T.clear(c)
            for k in T.Pipelined(8, num_stages=stages):
                T.copy(A[0, k * 128], a)
                T.copy(B[k * 128, 0], b)
                T.gemm(a, b, c)
            T.copy(c, C)

    with pytest.raises(
        SharedMemoryLimitError, match=f"but a block has 232448: .*b {stages} stages × 65536 B"
    ) as raised:
        tl.compile(program, target={"kind": "cuda", "arch": arch}, execution="emulate")
    assert "with T.Kernel(1, threads=256)" in str(raised.value)
