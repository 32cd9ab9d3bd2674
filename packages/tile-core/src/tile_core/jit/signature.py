"""What a kernel takes: its parameters as plain Python values, read once from the program.

The packed function checks arguments in machine code (`host.py`); this description explains a refusal, allocates outputs
and answers `kernel.params`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import tvm_ffi
from tvm import ir, tirx
from tvm.tirx import stmt as S

from tile_core.errors.runtime import UnsolvableExtentError, UnsupportedParameterError
from tile_core.ir import visit
from tile_core.jit.extents import Extent, Symbols


@dataclass(frozen=True)
class TensorParam:
    """A tensor parameter. `strides` is `None` for a contiguous one; extents and strides count elements.

    `optional`: the kernel does not touch it, so a call may pass `None`. `written`: the kernel may store to it.
    """

    name: str
    dtype: str
    shape: tuple[Extent, ...]
    strides: tuple[Extent, ...] | None
    optional: bool
    written: bool

    @property
    def per_storage(self) -> int:
        """How many elements one byte of storage holds: more than 1 for dtypes narrower than a byte."""
        bits = storage_bits(self.dtype)
        return 8 // bits if bits < 8 else 1

    def __str__(self) -> str:
        dims = ", ".join(map(str, self.shape))
        return f"{self.name}: {self.dtype}[{dims}]"


@dataclass(frozen=True)
class ScalarParam:
    """A number passed by value."""

    name: str
    dtype: str

    def __str__(self) -> str:
        return f"{self.name}: {self.dtype}"


@dataclass(frozen=True)
class PointerParam:
    """A raw address, passed as an int or a tensor. Nothing about it can be checked."""

    name: str
    dtype: str

    def __str__(self) -> str:
        return f"{self.name}: {self.dtype}*"


Param = TensorParam | ScalarParam | PointerParam


@dataclass(frozen=True)
class Signature:
    """The parameters in order. `bits` gives the width of each symbol's integer type."""

    name: str
    params: tuple[Param, ...]
    bits: dict[str, int] = field(hash=False)

    def __str__(self) -> str:
        return f"{self.name}({', '.join(map(str, self.params))})"


def storage_bits(dtype: str) -> int:
    """Bits of one element, all lanes together."""
    parsed = tvm_ffi.dtype(dtype)
    return int(parsed.bits) * int(parsed.lanes)


def read_signature(program: Any) -> Signature:
    """The signature of a tile program, or of what it was lowered to.

    Raises:
        UnsupportedParameterError: a parameter of a type that a call cannot pass.
        UnsolvableExtentError: a symbol that no dimension, stride or scalar parameter gives a value.
    """
    symbols = Symbols()
    scalars = frozenset(symbols.name(var) for var in program.params if is_scalar(var))
    used = used_vars(program.body)
    written = written_buffers(program.body)
    shapes = {var: _extents(symbols, var) for var in program.params if is_tensor(var)}
    _check_solvable(shapes.values(), scalars, program)
    optional = _optional(symbols, shapes, scalars, used)
    params = tuple(_param(var, symbols, shapes, optional, written) for var in program.params)
    attrs = program.attrs
    name = str(attrs["global_symbol"]) if attrs is not None and "global_symbol" in attrs else "main"
    return Signature(name, params, symbols.bits)


def is_tensor(var: Any) -> bool:
    """Whether a parameter is a buffer."""
    return isinstance(var.ty, tirx.BufferType)


def is_scalar(var: Any) -> bool:
    """Whether a parameter is a number."""
    return isinstance(var.ty, ir.PrimType) and str(var.ty.dtype) != "handle"


def is_pointer(var: Any) -> bool:
    """Whether a parameter is a raw address."""
    return isinstance(var.ty, ir.PointerType) or (isinstance(var.ty, ir.PrimType) and str(var.ty.dtype) == "handle")


def used_vars(body: Any) -> set[Any]:
    """Every variable and buffer that statements mention."""
    return set(visit.collect(body, ir.Var))


def written_buffers(body: Any) -> set[Any]:
    """The buffers that a body may store to.

    What only appears in loads and in operands that a tile op reads is not written; anything else, an address passed to
    a call for one, counts as written.
    """
    from tile_core.ops import OPS

    found: set[Any] = set()

    def on_call(call: Any) -> None:
        op = OPS.get(str(call.op.name)) if isinstance(call.op, ir.Op) else None
        accesses = [operand.access for operand in op.operands] if op is not None else []
        for position, argument in enumerate(call.args):
            reads = position < len(accesses) and accesses[position] in ("r", "value")
            if not reads:
                found.update(_addressed(argument))

    for call in visit.collect(body, ir.Call):
        on_call(call)
    for store in visit.collect(body, S.BufferStore):
        found.add(store.buffer)
    for alias in visit.collect(body, S.DeclBuffer):
        found.update(_addressed(alias.data))
    return found


def _addressed(expr: Any) -> Iterable[Any]:
    """The buffers whose storage an argument hands on: regions, buffers, and the target of an address."""
    if isinstance(expr, ir.TensorRegion):
        return (expr.source,)
    if isinstance(expr, ir.Var):
        return (expr,)
    return (var for var in visit.collect(expr, ir.Var) if is_tensor(var)) if isinstance(expr, ir.Call) else ()


def _extents(symbols: Symbols, var: Any) -> tuple[tuple[Extent, ...], tuple[Extent, ...] | None]:
    shape = tuple(symbols.extent(extent) for extent in var.ty.shape)
    strides = tuple(symbols.extent(stride) for stride in var.ty.strides)
    return shape, strides or None


def _plain(entry: tuple[tuple[Extent, ...], tuple[Extent, ...] | None]) -> frozenset[str]:
    shape, strides = entry
    return frozenset(extent.symbol for extent in (*shape, *(strides or ())) if extent.symbol is not None)


def _check_solvable(shapes: Iterable[Any], scalars: frozenset[str], program: Any) -> None:
    entries = list(shapes)
    solved = scalars.union(*map(_plain, entries))
    for shape, strides in entries:
        for extent in (*shape, *(strides or ())):
            for symbol in sorted(extent.symbols - solved):
                raise UnsolvableExtentError(
                    f"the symbol {symbol!r} appears only inside {extent.text}, so a call cannot tell its value",
                    remedy=f"make {symbol!r} a dimension of some tensor by itself, or a scalar parameter",
                )


def _optional(symbols: Symbols, shapes: Any, scalars: frozenset[str], used: set[Any]) -> set[Any]:
    """The parameters for which a call may pass `None`: untouched, and with no symbol that only they can tell."""
    untouched = [var for var in shapes if var not in used]
    required = scalars.union(*(_plain(shapes[var]) for var in shapes if var not in untouched))
    needed = {symbols.name(var) for var in used if is_scalar(var)} if untouched else set()
    optional = set()
    for var in untouched:
        others = frozenset[str]().union(*(_plain(shapes[other]) for other in shapes if other is not var))
        own = _plain(shapes[var]) - required
        if not own & (needed | others):
            optional.add(var)
    return optional


def _param(var: Any, symbols: Symbols, shapes: Any, optional: set[Any], written: set[Any]) -> Param:
    name = str(var.name)
    if is_tensor(var):
        shape, strides = shapes[var]
        return TensorParam(name, str(var.ty.dtype), shape, strides, var in optional, var in written)
    if is_scalar(var):
        return ScalarParam(symbols.name(var), str(var.ty.dtype))
    if is_pointer(var):
        element = var.ty.element_type if isinstance(var.ty, ir.PointerType) else None
        return PointerParam(name, str(getattr(element, "dtype", "void")))
    raise UnsupportedParameterError(
        f"parameter {name!r} has the type {var.ty}, which a call cannot pass",
        remedy="declare it as a T.Tensor, a scalar dtype or T.ptr",
    )
