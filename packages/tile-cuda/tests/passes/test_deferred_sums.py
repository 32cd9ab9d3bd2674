"""Running totals of rows are combined over threads once, behind their loop, where nothing could tell the difference."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import tile_core as tl
import tile_core.language as T

ROWS, COLUMNS, LAPS = 32, 64, 3
SM_90 = {"kind": "cuda", "arch": "sm_90"}
EXCHANGE = "__shfl_xor_sync"


def totals(kind: str) -> Any:  # noqa: C901 - decided while it is traced
    """Softmax's running sums, in a form that `kind` says; Out[0] are the totals, Out[1] what else is read."""

    @T.prim_func
    def program(  # noqa: C901 - the same
        A: T.Tensor((ROWS, LAPS * COLUMNS), "float32"), Out: T.Tensor((2, ROWS), "float32")
    ):
        with T.Kernel(1, threads=128):
            x = T.alloc_fragment((ROWS, COLUMNS), "float32")
            top = T.alloc_fragment((ROWS,), "float32")
            before = T.alloc_fragment((ROWS,), "float32")
            scale = T.alloc_fragment((ROWS,), "float32")
            row = T.alloc_fragment((ROWS,), "float32")
            total = T.alloc_fragment((ROWS,), "float32")
            other = T.alloc_fragment((ROWS,), "float32")
            T.fill(total, 3.0)
            T.fill(row, 0.0)
            T.fill(other, 0.0)
            T.fill(top, -10.0)
            for lap in T.serial(LAPS):
                T.copy(A[0, lap * COLUMNS], x)
                T.copy(top, before)
                T.reduce_max(x, top, dim=1, clear=False)
                if kind == "chosen":
                    for i in T.Parallel(ROWS):
                        is_large = top[i] - before[i] > 1
                        top[i] = T.if_then_else(is_large, top[i], before[i])
                for i in T.Parallel(ROWS):
                    if kind == "growing":
                        scale[i] = T.exp2(top[i] - before[i])
                    elif kind == "falling":
                        scale[i] = before[i] - top[i]
                    else:
                        scale[i] = T.exp2((before[i] - top[i]) * 0.5)
                for i, j in T.Parallel(ROWS, COLUMNS):
                    x[i, j] = T.exp2((x[i, j] - top[i]) * 0.5)
                if kind == "row read before":
                    for i in T.Parallel(ROWS):
                        other[i] = other[i] + row[i]
                T.reduce_sum(x, row, dim=1)
                for i in T.Parallel(ROWS):
                    if kind == "plain":
                        total[i] = row[i] + total[i]
                    else:
                        total[i] = total[i] * scale[i] + row[i]
                if kind == "row read":
                    for i in T.Parallel(ROWS):
                        other[i] = other[i] + row[i]
                if kind == "total read":
                    for i in T.Parallel(ROWS):
                        other[i] = other[i] + total[i]
            if kind == "row read behind":
                T.copy(row, other)
            T.copy(total, Out[0, :])
            T.copy(other, Out[1, :])

    return program


def exchanges_a_lap(source: str) -> int:
    """Exchanges between threads in the loop over laps, as they are printed."""
    start = source.index("for (int lap")
    depth, at = 0, source.index("{", start)
    while True:
        depth += {"{": 1, "}": -1}.get(source[at], 0)
        at += 1
        if depth == 0:
            return source[start:at].count(EXCHANGE)


def run(kind: str, values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, int]:
    """Emulated with checks, interpreted, and the exchanges of a lap."""
    found = []
    for options in ({"target": SM_90, "execution": "emulate"}, {"target": "interpret"}):
        configs = {"tile.emulate_check": True} if "execution" in options else {}
        out = torch.full((2, ROWS), float("nan"))
        kernel = tl.compile(totals(kind), pass_configs=configs, **options)
        kernel(values, out)
        found.append(out)
        if "execution" in options:
            source = kernel.get_kernel_source()
    return found[0], found[1], exchanges_a_lap(source)


@pytest.fixture(scope="module")
def values() -> torch.Tensor:
    torch.manual_seed(5)
    values = torch.randn(ROWS, LAPS * COLUMNS) * 8
    values[3, 70] = float("inf")
    values[4] = -float("inf")
    values[5, 100] = float("nan")
    values[6] = -400.0
    return values


@pytest.mark.emulate
@pytest.mark.parametrize("kind", ["attention", "chosen", "plain"])
def test_sums_that_are_only_added_up(kind: str, values: torch.Tensor) -> None:
    found, expected, exchanges = run(kind, values)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6, equal_nan=True)
    assert exchanges == run("row read", values)[2] // 2, "only the maximum is combined in the loop"


@pytest.mark.emulate
@pytest.mark.parametrize("kind", ["growing", "falling", "row read", "row read before", "row read behind", "total read"])
def test_sums_that_something_else_may_see(kind: str, values: torch.Tensor) -> None:
    """An infinite factor too: the part of a thread that is 0 would become NaN."""
    found, expected, exchanges = run(kind, values)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6, equal_nan=True)
    assert exchanges >= 2
    assert exchanges == run("row read", values)[2]
