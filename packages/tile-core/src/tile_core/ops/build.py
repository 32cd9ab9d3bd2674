"""Small vocabulary for lowerings: tiles, loop nests and dtype rules over plain `tirx` nodes.

Float expressions are built from node constructors, never with Python operators: TVM's operators fold floats by
algebraic rules that do not hold for NaN and infinities. Integer index arithmetic may fold.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tvm import ir, sym, tirx
from tvm.tirx import stmt as S

from tile_core.ir.regions import constant, scope

PARALLEL = "tile.parallel"
AXIS_NAMES = ("i", "j", "k", "l", "m", "n")


def int32(value: int) -> ir.Expr:
    """An int32 constant."""
    return tirx.IntImm("int32", value)


def dtype_of(expr: ir.Expr) -> str:
    """The dtype of a scalar expression, as TVM spells it."""
    return str(expr.ty.dtype)


def simplify(expr: ir.Expr) -> ir.Expr:
    """`expr`, an integer, in simpler form."""
    return sym.Analyzer().simplify(expr)


def difference(a: ir.Expr, b: ir.Expr) -> int | None:
    """`a - b` where that is a constant."""
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
    def dtype(self) -> str:
        """The element's dtype, as TVM spells it."""
        return str(self.buffer.dtype)

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


def cast(value: ir.Expr, dtype: str) -> ir.Expr:
    """`value` as `dtype`; the same node where it already is."""
    return value if dtype_of(value) == dtype else tirx.Cast(dtype, value)


def zero(dtype: str) -> ir.Expr:
    """The constant 0 of `dtype`."""
    return number(0, dtype)


def number(value: float | int, dtype: str) -> ir.Expr:
    """The constant `value` of `dtype`, rounded to it; what a narrow float cannot hold as a literal is a cast of one."""
    if not is_float(dtype):
        return tirx.IntImm(dtype, int(value))
    if bits(dtype) >= 32 or value == 0:
        return tirx.FloatImm(dtype, float(value))
    return tirx.Cast(dtype, tirx.FloatImm("float32", float(value)))


def is_float(dtype: str) -> bool:
    """Whether `dtype` is a floating-point dtype of any width."""
    return dtype.startswith(("float", "bfloat"))


def is_bool(dtype: str) -> bool:
    """Whether `dtype` is bool."""
    return dtype == "bool"


def is_signed(dtype: str) -> bool:
    """Whether `dtype` is a signed integer."""
    return dtype.startswith("int")


def bits(dtype: str) -> int:
    """Bits of one element."""
    if is_bool(dtype):
        return 8
    return int(ir.PrimType(dtype).dtype.bits)


def widened(*dtypes: str) -> str:
    """The dtype in which values of all `dtypes` are combined.

    Floats of at most 32 bits compute in float32, 64-bit ones in float64. Integers take the narrowest integer dtype that
    holds all of them (at most 64 bits); with a float among them they compute as float.
    """
    if any(is_float(dtype) for dtype in dtypes):
        return "float64" if any(is_float(dtype) and bits(dtype) == 64 for dtype in dtypes) else "float32"
    if len(set(dtypes)) == 1:
        return dtypes[0]
    signed = any(is_signed(dtype) for dtype in dtypes)
    width = max(bits(dtype) * (2 if signed and not is_signed(dtype) and not is_bool(dtype) else 1) for dtype in dtypes)
    return f"{'int' if signed else 'uint'}{min(width, 64)}"


def variables(extents: Sequence[ir.Expr], names: Sequence[str] = AXIS_NAMES) -> list[ir.Var]:
    """One loop variable an extent, of the extent's dtype."""
    return [
        tirx.Var(names[axis] if axis < len(names) else f"i{axis}", dtype_of(extent))
        for axis, extent in enumerate(extents)
    ]


def parallel(
    extents: Sequence[ir.Expr], body: Callable[[list[ir.Expr]], S.Stmt], span: ir.Span | None = None
) -> S.Stmt:
    """A perfect `PARALLEL` nest over `extents` around `body(indices)`; without axes, the body alone."""
    loop_vars = variables(extents)
    stmt = body(list(loop_vars))
    for axis in reversed(range(len(extents))):
        marks = {PARALLEL: len(extents)} if axis == 0 else {}
        extent = extents[axis]
        low = tirx.IntImm(dtype_of(extent), 0)
        stmt = S.For(loop_vars[axis], low, extent, S.ForKind.PARALLEL, stmt, annotations=marks, span=span)
    return stmt


def serial(extent: ir.Expr, body: Callable[[ir.Expr], S.Stmt], name: str = "k", span: ir.Span | None = None) -> S.Stmt:
    """A `SERIAL` loop over `extent` around `body(index)`."""
    loop_var = tirx.Var(name, dtype_of(extent))
    return S.For(loop_var, tirx.IntImm(dtype_of(extent), 0), extent, S.ForKind.SERIAL, body(loop_var), span=span)


@dataclass(frozen=True)
class Cell:
    """A scalar variable of a lowering, one per thread."""

    buffer: ir.Var

    @classmethod
    def new(cls, name: str, dtype: str) -> Cell:
        """A fresh variable; `declare()` is its allocation."""
        return cls(tirx.decl_buffer((1,), dtype, name, scope="local.var"))

    def declare(self, span: ir.Span | None = None) -> S.Stmt:
        """The allocation."""
        return S.AllocBuffer(self.buffer, span=span)

    def get(self) -> ir.Expr:
        """Its value."""
        return tirx.BufferLoad(self.buffer, [int32(0)])

    def set(self, value: ir.Expr, span: ir.Span | None = None) -> S.Stmt:
        """Assign `value`."""
        return S.BufferStore(self.buffer, cast(value, str(self.buffer.dtype)), [int32(0)], span)
