"""`tile.scan` against torch, for every axis and direction."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import tile_core.language as T
from tile_core.errors import ScanShapeError


def scanning(shape: tuple[int, ...], name: str, dim: int, reverse: bool, in_place: bool, dtype: str = "float32") -> Any:
    scan = getattr(T, name)

    @T.prim_func
    def kernel(A: T.Tensor(shape, dtype), B: T.Tensor(shape, dtype)):
        with T.Kernel(1):
            tile = T.alloc_shared(shape, dtype)
            other = T.alloc_fragment(shape, dtype)
            T.copy(A, tile)
            if in_place:
                scan(tile, dim=dim, reverse=reverse)
                T.copy(tile, B)
            else:
                scan(tile, other, dim=dim, reverse=reverse)
                T.copy(other, B)

    return kernel


def expected_of(a: torch.Tensor, name: str, dim: int, reverse: bool) -> torch.Tensor:
    source = a.flip(dim) if reverse else a
    found = torch.cumsum(source, dim) if name == "cumsum" else torch.cummax(source, dim).values
    return found.flip(dim) if reverse else found


@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("name", ["cumsum", "cummax"])
@pytest.mark.parametrize(("shape", "dim"), [((37,), 0), ((32, 64), 0), ((32, 64), 1), ((3, 5, 7), 1), ((4, 1), -1)])
def test_against_torch(run: Any, shape: tuple[int, ...], dim: int, name: str, reverse: bool, in_place: bool) -> None:
    a = torch.randn(shape, generator=torch.Generator().manual_seed(2))
    b = torch.full(shape, 77.0)
    run(scanning(shape, name, dim, reverse, in_place), a, b)
    torch.testing.assert_close(b, expected_of(a, name, dim, reverse))


def test_a_narrow_float_accumulates_wide(run: Any) -> None:
    a, b = torch.full((1000,), 0.1).half(), torch.zeros(1000).half()
    run(scanning((1000,), "cumsum", 0, False, True, "float16"), a, b)
    torch.testing.assert_close(b, a.float().cumsum(0).half(), rtol=1e-3, atol=0)


def test_integers_wrap(run: Any) -> None:
    a, b = torch.full((5,), 100, dtype=torch.int8), torch.zeros(5, dtype=torch.int8)
    run(scanning((5,), "cumsum", 0, False, False, "int8"), a, b)
    assert torch.equal(b, torch.cumsum(a, 0).to(torch.int8))


def test_the_maximum_propagates_nan(run: Any) -> None:
    a, b = torch.tensor([1.0, float("nan"), 2.0]), torch.zeros(3)
    run(scanning((3,), "cummax", 0, False, False), a, b)
    assert b[0] == 1
    assert b[1:].isnan().all()


@pytest.mark.parametrize("dim", [2, -3])
def test_a_wrong_axis_is_refused(dim: int) -> None:
    with pytest.raises(ScanShapeError, match=f"dim={dim}.*tile"):
        scanning((4, 4), "cumsum", dim, False, True)


def test_shapes_must_agree() -> None:
    with pytest.raises(ScanShapeError, match=r"tile.*\(4, 4\).*other.*\(4, 5\)"):

        @T.prim_func
        def kernel(A: T.Tensor((4,), "float32")):
            with T.Kernel(1):
                tile = T.alloc_shared((4, 4), "float32")
                other = T.alloc_shared((4, 5), "float32")
                T.cumsum(tile, other)


def test_a_shifted_scan_inside_one_buffer_is_refused() -> None:
    with pytest.raises(ScanShapeError, match="overlap"):

        @T.prim_func
        def kernel(A: T.Tensor((4,), "float32")):
            with T.Kernel(1):
                tile = T.alloc_shared((8,), "float32")
                T.cumsum(tile[0:7], tile[1:8])
