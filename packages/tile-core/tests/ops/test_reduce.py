"""`tile.reduce` against torch: kinds, axes, dtypes, NaN, empty axes, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import tile_core.language as T
from tile_core.errors import OpArgumentError, ReduceDTypeError, ReduceKindError, ReduceShapeError

FLOATS = {"sum": torch.sum, "max": torch.amax, "min": torch.amin}


def reducing(
    shape: tuple[int, ...],
    kind: str,
    dim: int,
    *,
    clear: bool = True,
    source: str = "float32",
    target: str = "float32",
    keep: bool = False,
) -> Any:
    axis = dim % len(shape)
    kept = (1,) if keep else ()
    out = (*shape[:axis], *kept, *shape[axis + 1 :]) or (1,)

    @T.prim_func
    def kernel(A: T.Tensor(shape, source), B: T.Tensor(out, target)):
        with T.Kernel(1):
            tile = T.alloc_fragment(shape, source)
            result = T.alloc_fragment(out, target)
            T.copy(A, tile)
            T.copy(B, result)
            T.reduce(tile, result, kind, dim, clear)
            T.copy(result, B)

    return kernel


@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize("kind", FLOATS)
@pytest.mark.parametrize(
    ("shape", "dim"),
    [((48,), 0), ((33, 7), -1), ((5, 96), 0), ((32, 4, 4), 1), ((1, 1), 1), ((3, 1), 1), ((2, 3, 5, 7), 2)],
)
def test_floats(run: Any, shape: tuple[int, ...], dim: int, kind: str, keep: bool) -> None:
    if len(shape) == 1 and keep:
        return
    a = torch.randn(shape, generator=torch.Generator().manual_seed(1))
    expected = FLOATS[kind](a, dim=dim, keepdim=keep or len(shape) == 1)
    b = torch.full(expected.shape, 77.0)
    run(reducing(shape, kind, dim, keep=keep), a, b)
    torch.testing.assert_close(b, expected)


@pytest.mark.parametrize("width", [33, 48, 96, 100])
def test_any_width(run: Any, width: int) -> None:
    a = torch.arange(1, width + 1, dtype=torch.float32)
    for kind, expected in (("sum", width * (width + 1) / 2), ("max", width), ("min", 1)):
        b = torch.zeros(1)
        run(reducing((width,), kind, 0), a, b)
        assert b.item() == expected


@pytest.mark.parametrize("kind", ["sum", "max", "min"])
def test_without_clear_the_old_output_takes_part(run: Any, kind: str) -> None:
    a, b = torch.randn(9, 11), torch.randn(9)
    combine = {"sum": torch.add, "max": torch.maximum, "min": torch.minimum}[kind]
    expected = combine(b, FLOATS[kind](a, dim=1))
    run(reducing((9, 11), kind, 1, clear=False), a, b)
    torch.testing.assert_close(b, expected)


def test_a_narrow_output_is_rounded_once(run: Any) -> None:
    a = torch.randn(32, 64)
    b = torch.zeros(32, dtype=torch.bfloat16)
    run(reducing((32, 64), "sum", 1, target="bfloat16"), a, b)
    exact = a.double().sum(1)
    assert (b.double() - exact).abs().max() <= 2**-8 * exact.abs().max()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_a_narrow_sum_accumulates_wide(run: Any, dtype: str) -> None:
    a = torch.ones(4, 4096).to(getattr(torch, dtype))
    b = torch.zeros(4, dtype=torch.float32)
    run(reducing((4, 4096), "sum", 1, source=dtype), a, b)
    assert b.tolist() == [4096.0] * 4


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "int64"])
@pytest.mark.parametrize("kind", ["sum", "abssum", "max", "min", "absmax", "bitand", "bitor", "bitxor"])
def test_integers(run: Any, kind: str, dtype: str) -> None:
    a = torch.randint(0 if dtype == "uint8" else -50, 100, (6, 13)).to(getattr(torch, dtype))
    b = torch.full((6,), 7).to(getattr(torch, dtype))
    run(reducing((6, 13), kind, 1, source=dtype, target=dtype), a, b)
    wide = a.long()
    columns = list(wide.unbind(1))
    expected = {
        "sum": wide.sum(1),
        "abssum": wide.abs().sum(1),
        "max": wide.amax(1),
        "min": wide.amin(1),
        "absmax": wide.abs().amax(1),
        "bitand": fold(torch.bitwise_and, columns),
        "bitor": fold(torch.bitwise_or, columns),
        "bitxor": fold(torch.bitwise_xor, columns),
    }[kind]
    assert torch.equal(b, expected.to(a.dtype))


def fold(function: Any, items: list[torch.Tensor]) -> torch.Tensor:
    result, *rest = items
    for item in rest:
        result = function(result, item)
    return result


def test_the_least_integer_has_a_wide_absolute_value(run: Any) -> None:
    a = torch.tensor([[-128, 5]], dtype=torch.int8)
    b = torch.zeros(1, dtype=torch.int32)
    run(reducing((1, 2), "absmax", 1, source="int8", target="int32"), a, b)
    assert b.item() == 128


@pytest.mark.parametrize(("kind", "function"), [("any", torch.any), ("all", torch.all)])
def test_logical(run: Any, kind: str, function: Any) -> None:
    a = torch.tensor([[0.0, 0.0], [0.0, 2.0], [float("nan"), 1.0]])
    b = torch.zeros(3, dtype=torch.bool)
    run(reducing((3, 2), kind, 1, target="bool"), a, b)
    assert torch.equal(b, function(a != 0, dim=1))


@pytest.mark.parametrize("propagate", [False, True])
@pytest.mark.parametrize("kind", ["max", "min", "absmax"])
def test_nan(run: Any, kind: str, propagate: bool) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((4, 3), "float32"), B: T.Tensor((4,), "float32")):
        with T.Kernel(1):
            tile = T.alloc_fragment((4, 3), "float32")
            result = T.alloc_fragment((4,), "float32")
            T.copy(A, tile)
            T.reduce(tile, result, kind, 1, True, annotations={"nan_propagate": propagate})
            T.copy(result, B)

    nan = float("nan")
    a = torch.tensor([[nan, 1, 2], [1, nan, 2], [1, 2, nan], [-1, -2, -3]])
    b = torch.zeros(4)
    run(kernel, a, b)
    clean = {"max": [2, 2, 2, -1], "min": [1, 1, 1, -3], "absmax": [2, 2, 2, 3]}[kind]
    expected = torch.tensor([*([nan] * 3), clean[3]] if propagate else clean, dtype=torch.float32)
    torch.testing.assert_close(b, expected, equal_nan=True)


def test_an_empty_axis_gives_the_identity(run: Any) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((4, 8), "float32"), B: T.Tensor((3, 4), "float32"), n: T.int32):
        with T.Kernel(1):
            result = T.alloc_fragment((4,), "float32")
            T.reduce(A[0:4, 0:n], result, "sum", 1, True)
            T.copy(result, B[0, :])
            T.reduce(A[0:4, 0:n], result, "max", 1, True)
            T.copy(result, B[1, :])
            T.reduce(A[0:4, 0:n], result, "min", 1, True)
            T.copy(result, B[2, :])

    b = torch.full((3, 4), 7.0)
    run(kernel, torch.randn(4, 8), b, 0)
    assert b.tolist() == [[0.0] * 4, [float("-inf")] * 4, [float("inf")] * 4]


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"shape": (4, 5), "kind": "sum", "dim": 2}, ReduceShapeError, ["dim=2", "tile"]),
        ({"shape": (4, 5), "kind": "mean", "dim": 1}, ReduceKindError, ["mean", "absmax"]),
        ({"shape": (4, 5), "kind": "bitand", "dim": 1}, ReduceDTypeError, ["tile", "float32"]),
        ({"shape": (4, 5), "kind": "sum", "dim": 1.0}, OpArgumentError, ["dim=1.0"]),
    ],
)
def test_refusals(arguments: dict[str, Any], error: type[Exception], words: list[str]) -> None:
    shape, kind, dim = arguments.values()

    with pytest.raises(error) as caught:

        @T.prim_func
        def kernel(A: T.Tensor(shape, "float32"), B: T.Tensor((4,), "float32")):
            with T.Kernel(1):
                tile = T.alloc_fragment(shape, "float32")
                result = T.alloc_fragment((4,), "float32")
                T.reduce(tile, result, kind, dim, True)

    assert all(word in str(caught.value) for word in words), str(caught.value)
    assert caught.value.span is not None


def test_a_wrong_output_shape_is_refused_with_both_accepted_ones() -> None:
    with pytest.raises(ReduceShapeError, match=r"\(4,\) or \(4, 1\).*result"):

        @T.prim_func
        def kernel(A: T.Tensor((4, 5), "float32")):
            with T.Kernel(1):
                tile = T.alloc_fragment((4, 5), "float32")
                result = T.alloc_fragment((5,), "float32")
                T.reduce_sum(tile, result, dim=1)
