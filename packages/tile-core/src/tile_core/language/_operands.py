"""From what an author writes (`A`, `A[i, j]`, `A[i:j, :]`, a variable) to the operands of a tile op.

An element stands for the region that starts there; its extents come from the other side of the op.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tvm import ir
from tvm_ffi import Object

from tile_core.errors.ops import CopyShapeError, OpArgumentError
from tile_core.frontend.builder import current_builder
from tile_core.frontend.values import Buffer, Element, Region, Value, VarCell, unwrap
from tile_core.ir import regions
from tile_core.ir.regions import constant
from tile_core.ops import OPS

Extents = Sequence[Any]


def emit(op: str, args: Mapping[str, ir.Expr], **attrs: Any) -> None:
    """Append a checked call of a tile op to the program."""
    builder = current_builder()
    builder.emit(OPS[op].call(args, span=builder.span, **attrs).to_stmt())


def buffer_of(value: Any, what: str) -> Buffer:
    """The buffer behind an operand. Raises `OpArgumentError` for anything that is not one."""
    if isinstance(value, Buffer):
        return value
    if isinstance(value, Element | Region | VarCell):
        return value.buffer
    current_builder()  # outside of a trace that is what is wrong
    raise OpArgumentError(
        f"{what}: {value!r} of type {type(value).__name__} is no buffer",
        remedy="pass a buffer, a region such as A[0:n, :], or the element at which a region starts",
    )


def whole_buffer(value: Any, what: str) -> Buffer:
    """An operand that must be a whole buffer. Raises `OpArgumentError`."""
    if isinstance(value, VarCell):
        return value.buffer
    if isinstance(value, Buffer):
        return value
    current_builder()
    raise OpArgumentError(f"{what}: {value!r} is no whole buffer", remedy="pass the buffer itself")


def region(value: Any, what: str, extents: Extents | None = None) -> ir.TensorRegion:
    """The region that an operand stands for; an element needs `extents`, one for each axis of the other side."""
    buffer = buffer_of(value, what)
    if isinstance(value, Region):
        return value.ir
    if isinstance(value, Element):
        if extents is None:
            extents = [1] * buffer.ndim
        starts = [unwrap(index) for index in value.indices]
        return regions.region(buffer.ir, starts, [unwrap(extent) for extent in fitted(extents, buffer, what)])
    return regions.whole(buffer.ir)


def extents_of(value: Any, what: str) -> Extents | None:
    """The extents that an operand gives; `None` for an element."""
    if isinstance(value, Element):
        return None
    if isinstance(value, Region):
        return value.extents
    return buffer_of(value, what).shape


def fitted(extents: Extents, buffer: Buffer, what: str) -> list[Any]:
    """`extents` of the other side for an element of `buffer`: right-aligned, unit axes added or removed in front."""
    missing = buffer.ndim - len(extents)
    if missing >= 0:
        return [1] * missing + list(extents)
    surplus, rest = extents[:-missing], extents[-missing:]
    if any(constant(extent) != 1 for extent in surplus):
        significant = [extent for extent in extents if constant(extent) != 1]
        if len(significant) > buffer.ndim:
            shape = ", ".join(map(str, extents))
            raise CopyShapeError(
                f"{what}: a region of shape ({shape}) cannot start at an element of {buffer.name}, which has "
                f"{buffer.ndim} axes",
                remedy="slice the other side to the same number of axes",
            )
        return [1] * (buffer.ndim - len(significant)) + significant
    return list(rest)


def pair(src: Any, dst: Any, what: str) -> tuple[ir.TensorRegion, ir.TensorRegion]:
    """Both regions of a data movement. At least one side must give extents."""
    src_extents, dst_extents = extents_of(src, f"{what}: src"), extents_of(dst, f"{what}: dst")
    return region(src, f"{what}: src", dst_extents), region(dst, f"{what}: dst", src_extents)


def attributes(given: Mapping[str, Any] | None, **options: Any) -> dict[str, Any]:
    """Attributes of a call from `annotations=` and the options that were given.

    Raises `OpArgumentError` for a value that a program cannot hold.
    """
    if given is not None and not isinstance(given, Mapping):
        raise OpArgumentError(
            f"annotations={given!r} of type {type(given).__name__} is no mapping",
            remedy='write annotations={"name": value}, or pass the argument by its name',
        )
    merged = {**(given or {}), **{key: value for key, value in options.items() if value is not None}}
    return {str(key): _attribute(str(key), value) for key, value in merged.items()}


def _attribute(key: str, value: Any) -> Any:
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, Value):
        return value.ir
    if isinstance(value, int | float | str | ir.Expr | Object):
        return value
    if isinstance(value, list | tuple):
        return [_attribute(key, item) for item in value]
    if isinstance(value, Mapping):
        return {str(name): _attribute(key, item) for name, item in value.items()}
    raise OpArgumentError(
        f"annotations: {key} is {value!r} of type {type(value).__name__}",
        remedy="give numbers, strings, or lists and dicts of them",
    )


def is_positive_int(value: Any) -> bool:
    """Whether `value` is a Python int of at least 1."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1
