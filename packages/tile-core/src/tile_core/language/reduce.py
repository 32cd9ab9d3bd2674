"""Reductions along one axis of a tile. Accumulation, NaN and identities: `tile_core.ops.reduce`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tile_core.errors.ops import OpArgumentError
from tile_core.language._operands import attributes, emit, is_positive_int, region

__all__ = [
    "reduce",
    "reduce_absmax",
    "reduce_abssum",
    "reduce_bitand",
    "reduce_bitor",
    "reduce_bitxor",
    "reduce_max",
    "reduce_min",
    "reduce_sum",
]

Annotations = Mapping[str, Any] | None


def reduce(
    buffer: Any,
    out: Any,
    reduce_type: str,
    dim: int,
    clear: bool,
    batch: int = 1,
    annotations: Annotations = None,
) -> None:
    """Combine `buffer` along `dim` into `out`.

    Args:
        out: the shape of `buffer` without `dim`, or with 1 in its place.
        reduce_type: sum, abssum, max, min, absmax, bitand, bitor, bitxor, any or all.
        clear: whether to start from the identity; otherwise the old values of `out` take part.
        batch: outputs that targets with threads combine at once; a hint for speed.

    Raises:
        ReduceShapeError, ReduceKindError, ReduceDTypeError: see their pages.
        OpArgumentError: `dim` or `batch` is no int, or `batch` is below 1.

    Example:
        T.reduce(acc, row, "max", dim=1, clear=False)
    """
    if type(dim) is not int:
        raise OpArgumentError(f"reduce_{reduce_type}: dim={dim!r} is no int", remedy="give the axis as a constant")
    if not is_positive_int(batch):
        raise OpArgumentError(f"reduce_{reduce_type}: batch={batch!r}", remedy="give an int of at least 1")
    emit(
        "tile.reduce",
        {"src": region(buffer, f"reduce_{reduce_type}: buffer"), "dst": region(out, f"reduce_{reduce_type}: out")},
        **attributes(annotations, kind=reduce_type, dim=dim, clear=int(bool(clear)), batch=batch),
    )


def reduce_sum(
    buffer: Any, out: Any, dim: int = -1, clear: bool = True, batch: int = 1, annotations: Annotations = None
) -> None:
    """`out = buffer.sum(dim)`, or added to `out` with `clear=False`. See `T.reduce`.

    Example:
        T.reduce_sum(acc, row, dim=1)
    """
    reduce(buffer, out, "sum", dim, clear, batch, annotations)


def reduce_abssum(buffer: Any, out: Any, dim: int = -1, batch: int = 1, annotations: Annotations = None) -> None:
    """`out = abs(buffer).sum(dim)`. See `T.reduce`.

    Example:
        T.reduce_abssum(acc, row, dim=1)
    """
    reduce(buffer, out, "abssum", dim, True, batch, annotations)


def reduce_max(
    buffer: Any, out: Any, dim: int = -1, clear: bool = True, batch: int = 1, annotations: Annotations = None
) -> None:
    """`out = buffer.max(dim)`, ignoring NaN; of an empty axis -inf or the least integer. See `T.reduce`.

    Example:
        T.reduce_max(acc, row, dim=1, clear=False)  # the larger of the old row and acc's
    """
    reduce(buffer, out, "max", dim, clear, batch, annotations)


def reduce_min(
    buffer: Any, out: Any, dim: int = -1, clear: bool = True, batch: int = 1, annotations: Annotations = None
) -> None:
    """`out = buffer.min(dim)`, ignoring NaN; of an empty axis +inf or the largest integer. See `T.reduce`.

    Example:
        T.reduce_min(acc, row, dim=1)
    """
    reduce(buffer, out, "min", dim, clear, batch, annotations)


def reduce_absmax(
    buffer: Any, out: Any, dim: int = -1, clear: bool = True, batch: int = 1, annotations: Annotations = None
) -> None:
    """`out = abs(buffer).max(dim)`, ignoring NaN; of an empty axis 0. See `T.reduce`.

    Example:
        T.reduce_absmax(acc, row, dim=1)
    """
    reduce(buffer, out, "absmax", dim, clear, batch, annotations)


def reduce_bitand(
    buffer: Any, out: Any, dim: int = -1, clear: bool = True, batch: int = 1, annotations: Annotations = None
) -> None:
    """Bitwise and along `dim`, of integers or bool. See `T.reduce`.

    Example:
        bits, common = T.alloc_fragment((64,), "int32"), T.alloc_fragment((1,), "int32")
        T.copy(I, bits)
        T.reduce_bitand(bits, common)
        assert common[0] == 0
    """
    reduce(buffer, out, "bitand", dim, clear, batch, annotations)


def reduce_bitor(
    buffer: Any, out: Any, dim: int = -1, clear: bool = True, batch: int = 1, annotations: Annotations = None
) -> None:
    """Bitwise or along `dim`, of integers or bool. See `T.reduce`.

    Example:
        bits, any_of_them = T.alloc_fragment((64,), "int32"), T.alloc_fragment((1,), "int32")
        T.copy(I, bits)
        T.reduce_bitor(bits, any_of_them)
        assert any_of_them[0] == 63
    """
    reduce(buffer, out, "bitor", dim, clear, batch, annotations)


def reduce_bitxor(
    buffer: Any, out: Any, dim: int = -1, clear: bool = True, batch: int = 1, annotations: Annotations = None
) -> None:
    """Bitwise exclusive or along `dim`, of integers or bool. See `T.reduce`.

    Example:
        bits, parity = T.alloc_fragment((64,), "int32"), T.alloc_fragment((1,), "int32")
        T.copy(I, bits)
        T.reduce_bitxor(bits, parity)
        assert parity[0] == 0
    """
    reduce(buffer, out, "bitxor", dim, clear, batch, annotations)
