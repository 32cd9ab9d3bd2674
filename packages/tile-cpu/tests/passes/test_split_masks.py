"""Masked nests give the same numbers where the mask is run and where it is not, and masks of data are always run."""

from __future__ import annotations

import pytest
import torch

import tile_core as tl
import tile_core.language as T

B = 32
N = 75


def _scaled(s, y):
    return s * 2 + y


VALUES = {
    "lower": lambda r, c, s, y, limit: T.Select(r >= c, s, -T.infinity("float32")),
    "upper": lambda r, c, s, y, limit: T.Select(r < c, _scaled(s, y), -T.infinity("float32")),
    "window": lambda r, c, s, y, limit: T.Select(T.And(r >= c, r < c + 70), _scaled(s, y), 7.0),
    "ragged": lambda r, c, s, y, limit: T.Select(c < N - 5, _scaled(s, y), 7.0),
    "steep": lambda r, c, s, y, limit: T.Select(r * 3 - 17 <= 100 - 2 * c, _scaled(s, y), 7.0),
    "columns": lambda r, c, s, y, limit: T.Select(c > 40, _scaled(s, y), s),
    "choice": lambda r, c, s, y, limit: T.if_then_else(r >= c, _scaled(s, y), 7.0),
    "other side": lambda r, c, s, y, limit: T.Select(r >= c, 7.0, _scaled(s, y)),
    "two": lambda r, c, s, y, limit: T.Select(r >= c, s, 7.0) + T.Select(c < N - 5, y, 3.0),
    "data": lambda r, c, s, y, limit: T.Select(limit > c, _scaled(s, y), 7.0),
    "either": lambda r, c, s, y, limit: T.Select(T.Or(r >= c, c > 40), _scaled(s, y), 7.0),
    "remainder": lambda r, c, s, y, limit: T.Select(c % 3 < 2, _scaled(s, y), 7.0),
}
KEPT = ("data", "either", "remainder")


def masked(kind: str):
    """A block of B by B of an N by N matrix at a time; the value of an element is that of `VALUES`."""
    value = VALUES.get(kind)

    @T.prim_func
    def kernel(
        X: T.Tensor((N, N), "float32"),
        Y: T.Tensor((N, N), "float32"),
        L: T.Tensor((N,), "int32"),
        Out: T.Tensor((N, N), "float32"),
    ):
        with T.Kernel(T.ceildiv(N, B), T.ceildiv(N, B)) as (bx, by):
            s = T.alloc_fragment((B, B), "float32")
            y = T.alloc_fragment((B, B), "float32")
            T.copy(X[by * B, bx * B], s)
            T.copy(Y[by * B, bx * B], y)
            for i, j in T.Parallel(B, B):
                row = by * B + i
                column = bx * B + j
                if value is not None:
                    s[i, j] = value(row, column, s[i, j], y[i, j], L[T.min(row, N - 1)])
                elif row >= column:
                    s[i, j] = s[i, j] * 2 + y[i, j]
            T.copy(s, Out[by * B, bx * B])

    return kernel


def expected(kind: str, x: torch.Tensor, y: torch.Tensor, limit: torch.Tensor) -> torch.Tensor:
    row, column = torch.arange(N)[:, None].expand(N, N), torch.arange(N).expand(N, N)
    yes, seven = x * 2 + y, torch.full_like(x, 7.0)
    causal = row >= column
    return {
        "lower": lambda: torch.where(causal, x, -torch.inf),
        "upper": lambda: torch.where(~causal, yes, -torch.inf),
        "window": lambda: torch.where(causal & (row < column + 70), yes, seven),
        "ragged": lambda: torch.where(column < N - 5, yes, seven),
        "steep": lambda: torch.where(row * 3 - 17 <= 100 - 2 * column, yes, seven),
        "columns": lambda: torch.where(column > 40, yes, x),
        "choice": lambda: torch.where(causal, yes, seven),
        "branch": lambda: torch.where(causal, yes, x),
        "other side": lambda: torch.where(causal, seven, yes),
        "two": lambda: torch.where(causal, x, seven) + torch.where(column < N - 5, y, torch.full_like(x, 3.0)),
        "data": lambda: torch.where(limit[:, None] > column, yes, seven),
        "either": lambda: torch.where(causal | (column > 40), yes, seven),
        "remainder": lambda: torch.where(column % 3 < 2, yes, seven),
    }[kind]()


@pytest.mark.parametrize("kind", [*VALUES, "branch"])
def test_masks(kind: str) -> None:
    kernel = tl.compile(masked(kind), target="cpu")
    torch.manual_seed(0)
    x, y = torch.randn(N, N), torch.randn(N, N)
    x[3, 5], x[40, 2], y[2, 60], x[70, 71] = torch.nan, torch.inf, torch.nan, -torch.inf
    limit = torch.randint(0, N, (N,), dtype=torch.int32)
    out = torch.full((N, N), 99.0)
    kernel(x, y, limit, out)
    torch.testing.assert_close(out, expected(kind, x, y, limit), equal_nan=True, rtol=2e-7, atol=1e-6)
    assert kernel.artifact.report.get("split_masks", 0) == (kind not in KEPT)


def test_a_mask_that_changes_nothing_leaves_no_loop_where_it_is_true() -> None:
    """The diagonal keeps the one loop; below it the tile is not touched."""
    source = tl.compile(masked("lower"), target="cpu").get_kernel_source()
    assert source.count("-inf") == 1
    assert "if not bx * 32 + 31 < by * 32:" in source


def test_a_mask_that_is_always_true_is_no_mask() -> None:
    @T.prim_func
    def kernel(X: T.Tensor((64, 64), "float32"), Out: T.Tensor((64, 64), "float32")):
        with T.Kernel(2) as bx:
            s = T.alloc_fragment((32, 64), "float32")
            T.copy(X[bx * 32, 0], s)
            for i, j in T.Parallel(32, 64):
                s[i, j] = T.Select(bx * 32 + i - j > -64, s[i, j] + 1, 0.0)
            T.copy(s, Out[bx * 32, 0])

    built = tl.compile(kernel, target="cpu")
    x, out = torch.randn(64, 64), torch.full((64, 64), 99.0)
    built(x, out)
    assert torch.equal(out, x + 1)
    assert "T.Select" not in built.get_kernel_source()


@pytest.mark.parametrize("limit", [0, 70, 2**31 - 1, 2**31 - 64, 2**31 - 63, -(2**31), 5 - 2**31, 63 - 2**31])
def test_masks_with_sums_of_data_that_wrap(limit: int) -> None:
    """In one corner of a nest a sum may be as it is in none of the other iterations."""

    @T.prim_func
    def kernel(L: T.Tensor((1,), "int32"), n: T.int32, Out: T.Tensor((4, 64), "int32")):
        with T.Kernel(1):
            m = L[0]
            for i in T.Parallel(64):
                Out[0, i] = T.Select(i + m > 5, 1, 0)
            for i in T.Parallel(64):
                Out[1, i] = T.Select(i + n > 5, 1, 0)
            for i in T.Parallel(64):
                Out[2, i] = T.Select(n - i < 5, 1, 0)
            for i in T.Parallel(64):
                Out[3, i] = T.Select(63 - i < m + 64, 1, 0)

    built = tl.compile(kernel, target="cpu")
    out = torch.full((4, 64), 99, dtype=torch.int32)
    number = torch.tensor([limit], dtype=torch.int32)
    built(number, limit, out)
    i = torch.arange(64, dtype=torch.int32)
    expected = [i + number > 5, i + number > 5, number - i < 5, 63 - i < number + 64]
    assert torch.equal(out, torch.stack(expected).int())
    assert built.artifact.report["split_masks"] == 4
