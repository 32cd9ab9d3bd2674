"""Small vocabulary for lowerings: tiles, loop nests and dtype rules over plain `tirx` nodes.

Float expressions are built from node constructors, never with Python operators: TVM's operators fold floats by
algebraic rules that do not hold for NaN and infinities. Integer index arithmetic may fold.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import tvm_ffi
from tvm import ir, tirx
from tvm.tirx import stmt as S

from tile_core.dtypes import DType, as_dtype
from tile_core.ir.analyzer import Analyzer
from tile_core.ir.integers import is_index_arithmetic
from tile_core.ir.marks import PARALLEL
from tile_core.ir.regions import VAR, constant, scope

AXIS_NAMES = ("i", "j", "k", "l", "m", "n")


def int32(value: int) -> ir.Expr:
    """An int32 constant."""
    return tirx.IntImm("int32", value)


def dtype_of(expr: ir.Expr) -> DType:
    """The dtype of a scalar expression."""
    return as_dtype(str(expr.ty.dtype))


def simplify(expr: ir.Expr) -> ir.Expr:
    """`expr`, an integer, in simpler form; as it is where integers that wrap take part."""
    return Analyzer().simplify(expr) if is_index_arithmetic(expr) else expr


def difference(a: ir.Expr, b: ir.Expr) -> int | None:
    """`a - b` where that is a constant."""
    if tvm_ffi.structural_equal(a, b):
        return 0
    first, second = constant(a), constant(b)
    if first is not None and second is not None:
        return first - second
    return constant(simplify(a - b))


def same(a: ir.Expr, b: ir.Expr) -> bool:
    """Whether two integer expressions are provably equal."""
    return difference(a, b) == 0


@dataclass(frozen=True)
class Tile:
    """A region operand with its parts at hand; indices are relative to the region's start."""

    region: ir.TensorRegion

    @property
    def buffer(self) -> ir.Var:
        """The buffer variable."""
        return self.region.source

    @property
    def name(self) -> str:
        """The buffer's name."""
        return str(self.buffer.name)

    @property
    def dtype(self) -> DType:
        """The element's dtype."""
        return as_dtype(str(self.buffer.dtype))

    @property
    def scope(self) -> str:
        """The storage scope."""
        return scope(self.buffer)

    @property
    def rank(self) -> int:
        """Number of axes."""
        return len(self.region.region)

    @property
    def starts(self) -> list[ir.Expr]:
        """The first index on each axis."""
        return [axis.min for axis in self.region.region]

    @property
    def extents(self) -> list[ir.Expr]:
        """The number of elements on each axis."""
        return [axis.extent for axis in self.region.region]

    @property
    def shape(self) -> list[int | None]:
        """The extents that are constants, `None` for the others."""
        return [constant(extent) for extent in self.extents]

    def indices(self, index: Sequence[ir.Expr]) -> list[ir.Expr]:
        """Absolute indices of the element at `index` of the region."""
        return [simplify(start + at) for start, at in zip(self.starts, index, strict=True)]

    def load(self, index: Sequence[ir.Expr]) -> ir.Expr:
        """The element at `index` of the region."""
        return tirx.BufferLoad(self.buffer, self.indices(index))

    def store(self, value: ir.Expr, index: Sequence[ir.Expr], span: ir.Span | None = None) -> S.Stmt:
        """Write `value`, converted to the buffer's dtype, to the element at `index` of the region."""
        return S.BufferStore(self.buffer, cast(value, self.dtype), self.indices(index), span)

    def __str__(self) -> str:
        axes = ", ".join(_axis(start, extent) for start, extent in zip(self.starts, self.extents, strict=True))
        return f"{self.name}[{axes}]"


def _axis(start: ir.Expr, extent: ir.Expr) -> str:
    if constant(extent) == 1:
        return str(start)
    return f"{start}:{simplify(start + extent)}"


def shape_text(extents: Sequence[ir.Expr]) -> str:
    """Extents as a tuple in an error message."""
    return "(" + ", ".join(str(extent) for extent in extents) + ("," if len(extents) == 1 else "") + ")"


def cast(value: ir.Expr, dtype: DType) -> ir.Expr:
    """`value` as `dtype`; the same node where it already is."""
    return value if dtype_of(value) is dtype else tirx.Cast(dtype.tvm, value)


def number(value: float, dtype: DType) -> ir.Expr:
    """The constant `value` of `dtype`, rounded to it; what a narrow float cannot hold as a literal is a cast of one."""
    if not dtype.is_float:
        return tirx.IntImm(dtype.tvm, int(value))
    if dtype.name in ("float32", "float64"):
        return tirx.FloatImm(dtype.tvm, float(value))
    return tirx.Cast(dtype.tvm, tirx.FloatImm("float32", float(value)))


def widened(*dtypes: DType) -> DType:
    """The dtype in which values of all `dtypes` are combined.

    Floats of at most 32 bits compute in float32, 64-bit ones in float64. Integers take the narrowest integer dtype that
    holds all of them (at most 64 bits); with a float among them they compute as float.
    """
    if any(dtype.is_float for dtype in dtypes):
        return DType("float64" if any(dtype.is_float and dtype.bits == 64 for dtype in dtypes) else "float32")
    if len(set(dtypes)) == 1:
        return dtypes[0]
    signed = any(dtype.is_int for dtype in dtypes)
    width = max(dtype.bits * (2 if signed and dtype.is_unsigned else 1) for dtype in dtypes)
    return DType(f"{'int' if signed else 'uint'}{min(width, 64)}")


def variables(extents: Sequence[ir.Expr], names: Sequence[str] = AXIS_NAMES) -> list[ir.Var]:
    """One loop variable an extent, of the extent's dtype."""
    return [
        tirx.Var(names[axis] if axis < len(names) else f"i{axis}", extent.ty) for axis, extent in enumerate(extents)
    ]


def parallel(
    extents: Sequence[ir.Expr],
    body: Callable[[list[ir.Expr]], S.Stmt],
    span: ir.Span | None = None,
    annotations: Mapping[str, Any] = MappingProxyType({}),
) -> S.Stmt:
    """A perfect `PARALLEL` nest over `extents` around `body(indices)`; without axes, the body alone.

    `annotations` go on the outermost loop.
    """
    loop_vars = variables(extents)
    stmt = body(list(loop_vars))
    for axis in reversed(range(len(extents))):
        marks = {PARALLEL: len(extents), **annotations} if axis == 0 else {}
        extent = extents[axis]
        low = tirx.IntImm(extent.ty, 0)
        stmt = S.For(loop_vars[axis], low, extent, S.ForKind.PARALLEL, stmt, annotations=marks, span=span)
    return stmt


def serial(extent: ir.Expr, body: Callable[[ir.Expr], S.Stmt], name: str = "k", span: ir.Span | None = None) -> S.Stmt:
    """A `SERIAL` loop over `extent` around `body(index)`."""
    loop_var = tirx.Var(name, extent.ty)
    return S.For(loop_var, tirx.IntImm(extent.ty, 0), extent, S.ForKind.SERIAL, body(loop_var), span=span)


@dataclass(frozen=True)
class Cell:
    """A scalar variable of a lowering, one per thread."""

    buffer: ir.Var

    @classmethod
    def new(cls, name: str, dtype: DType) -> Cell:
        """A fresh variable; `declare()` is its allocation."""
        return cls(tirx.decl_buffer((1,), dtype.tvm, name, scope=VAR))

    def declare(self, span: ir.Span | None = None) -> S.Stmt:
        """The allocation."""
        return S.AllocBuffer(self.buffer, span=span)

    def get(self) -> ir.Expr:
        """Its value."""
        return tirx.BufferLoad(self.buffer, [int32(0)])

    def set(self, value: ir.Expr, span: ir.Span | None = None) -> S.Stmt:
        """Assign `value`."""
        return S.BufferStore(self.buffer, cast(value, as_dtype(str(self.buffer.dtype))), [int32(0)], span)
