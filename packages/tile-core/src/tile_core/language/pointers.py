"""Addresses, and calls of functions that the compiler does not know."""

from __future__ import annotations

from typing import Any

from tvm import ir, tirx

from tile_core.dtypes import as_dtype
from tile_core.errors.ops import OpArgumentError
from tile_core.frontend.values import Buffer, Element, Expr, Region, Value, VarCell, unwrap

__all__ = ["access_ptr", "address_of", "call_extern", "call_intrin", "call_pure_extern"]

_ACCESS = ("r", "w", "rw")


def address_of(obj: Any, span: Any = None) -> Expr:
    """The address of an element, or of the first element of a buffer or region.

    Raises:
        OpArgumentError: something without an address.

    Example:
        T.call_extern("void", "prefetch", T.address_of(A[0, 0]))
    """
    return Expr(_address("address_of", obj, 0))


def access_ptr(
    base: Any,
    access_type: str = "r",
    *extents: Any,
    offset: Any = 0,
    extent: Any = None,
    ignore_last_ndim: int = 0,
) -> Expr:
    """The address of a buffer, region or element, for a function that accesses memory there.

    Args:
        access_type: whether the function reads ("r"), writes ("w") or does both ("rw").
        extents, extent: how many elements are accessed, which is documentation.
        offset: elements to skip; only of a buffer with one axis.
        ignore_last_ndim: axes at the end whose index is left out of the address.

    Raises:
        OpArgumentError: no buffer, an unknown access type, or an offset on more than one axis.

    Example:
        T.call_extern("void", "prefetch", T.access_ptr(A[0, 0], "r", 64))
    """
    if access_type not in _ACCESS:
        raise OpArgumentError(f"access_ptr: access_type={access_type!r}", remedy='use "r", "w" or "rw"')
    has_offset = not (isinstance(offset, int) and offset == 0)
    if has_offset and not (isinstance(base, Buffer) and base.ndim == 1):
        raise OpArgumentError("access_ptr: an offset needs a buffer of one axis", remedy="pass the element instead")
    return Expr(_address("access_ptr", base, ignore_last_ndim, offset))


def _address(what: str, value: Any, ignored: int, offset: Any = 0) -> ir.Expr:
    if isinstance(value, VarCell | Buffer):
        buffer = value.buffer if isinstance(value, VarCell) else value
        starts: list[Any] = [0] * buffer.ndim
        starts[0] = offset
    elif isinstance(value, Region):
        buffer, starts = value.buffer, list(value.starts)
    elif isinstance(value, Element):
        buffer, starts = value.buffer, list(value.indices)
    else:
        raise OpArgumentError(f"{what}: {value!r} has no address", remedy="pass an element, a region or a buffer")
    kept = len(starts) - ignored
    starts = starts[:kept] + [0] * ignored
    return tirx.address_of(tirx.BufferLoad(buffer.ir, [unwrap(start) for start in starts]))


def _arguments(args: tuple[Any, ...]) -> list[Any]:
    return [_argument(value) for value in args]


def _argument(value: Any) -> Any:
    if isinstance(value, Buffer | Region):
        return _address("call", value, 0)
    if isinstance(value, str):
        return ir.StringImm(value)
    return value if isinstance(value, ir.Expr) and not isinstance(value, Value) else unwrap(value)


def call_extern(dtype: Any, func_name: str, *args: Any, span: Any = None) -> Expr:
    """Call a C function of the target's code. A buffer or region is passed as the address of its first element.

    Example:
        T.call_extern("void", "prefetch", A[0, 0])  # `prelude=` of T.Kernel may define it
    """
    return Expr(tirx.call_extern(_result(dtype), _symbol(func_name), *_arguments(args)))


def call_pure_extern(dtype: Any, func_name: str, *args: Any, span: Any = None) -> Expr:
    """Like `T.call_extern`, for a function without side effects, whose call may be moved or dropped.

    Example:
        X[0] = T.call_pure_extern("float32", "square", X[1])
    """
    return Expr(tirx.call_pure_extern(_result(dtype), _symbol(func_name), *_arguments(args)))


def call_intrin(dtype: Any, func_name: Any, *args: Any, annotations: Any = None, span: Any = None) -> Expr:
    """Call a TVM operator by name.

    Example:
        X[0] = T.call_intrin("float32", "tirx.exp", X[1])
    """
    if not isinstance(func_name, str | ir.Op):
        raise OpArgumentError(f"call_intrin: {func_name!r} names no operator", remedy='write its name: "tirx.exp"')
    return Expr(tirx.call_intrin(_result(dtype), func_name, *_arguments(args), attrs=annotations))


def _symbol(name: Any) -> str:
    if not isinstance(name, str):
        raise OpArgumentError(f"the function to call is {name!r}", remedy='write its name: "expf"')
    return name


def _result(dtype: Any) -> str:
    return "void" if isinstance(dtype, str) and dtype in ("void", "") else as_dtype(dtype).tvm
