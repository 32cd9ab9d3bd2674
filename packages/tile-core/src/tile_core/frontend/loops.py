"""Device loops as values: what `T.serial` and its like return, and how a `For` nest is made of one and its body."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn

from tvm import ir, tirx
from tvm.tirx import stmt as S

from tile_core.dtypes import DType
from tile_core.errors.frontend import LoopArgumentError, LoopUseError
from tile_core.frontend.binding import fixed
from tile_core.frontend.builder import Builder
from tile_core.frontend.positions import caller_span
from tile_core.frontend.promotion import INT32, INT64, as_int, fits, promote, shown
from tile_core.frontend.values import Expr, Var, unwrap, wrap
from tile_core.ir import visit
from tile_core.ir.marks import PARALLEL
from tile_core.ir.regions import constant

KINDS = {
    "serial": S.ForKind.SERIAL,
    "parallel": S.ForKind.PARALLEL,
    "vectorized": S.ForKind.VECTORIZED,
    "unrolled": S.ForKind.UNROLLED,
}
Decode = Callable[[Builder, Sequence[Var]], tuple[list[Any], ir.Expr | None]]


class LoneVar(Var):
    """The only index of a loop or grid: `for i in` and `for (i,) in` both bind it."""

    __slots__ = ()

    def __iter__(self) -> Iterator[Any]:
        yield Var(self._ir)


@dataclass(frozen=True)
class Axis:
    """One loop: `extent` steps from `start`. A step other than 1 is applied when the index is bound."""

    start: Any
    extent: Any
    step: Any = 1
    dtype: DType = INT32

    def entered(self) -> Axis:
        """The axis with its bounds evaluated, as they are before the first iteration."""
        extent = unwrap(self.extent, self.dtype)
        if _plain(self):
            return replace(self, start=unwrap(self.start, self.dtype), extent=extent)
        return replace(self, start=fixed("start", self.start), extent=extent, step=fixed("step", self.step))


@dataclass(frozen=True)
class LoopNest:
    """A perfect nest of device loops.

    `decode` turns the loop variables into what the target gets and a guard of the body, `None` where they are the same.
    """

    what: str
    kind: str
    axes: tuple[Axis, ...]
    annotations: Mapping[str, Any] = field(default_factory=dict)
    breakable: bool = True
    decode: Decode | None = None

    @property
    def ordered(self) -> bool:
        """Whether iterations follow one another."""
        return self.kind in ("serial", "unrolled")

    # What a traced `for` binds, for type checkers.
    def __iter__(self) -> Iterator[Any]:
        raise LoopUseError(
            f"{self.what} is a loop of the kernel and cannot be iterated by Python",
            remedy="use it as `for i in ...` in a traced function; a comprehension takes a Python sequence",
            span=caller_span(),
        )

    def __str__(self) -> str:
        return self.what

    def __len__(self) -> NoReturn:
        raise LoopUseError(f"{self.what} has no length", remedy="keep the extent in a name", span=caller_span())

    def entered(self) -> LoopNest:
        """The nest with its bounds evaluated, which is done before the body is traced."""
        return replace(self, axes=tuple(axis.entered() for axis in self.axes))

    def variables(self, builder: Builder) -> list[Var]:
        """Fresh loop variables, named after the loop's targets."""
        stepped = [axis.step != 1 if isinstance(axis.step, int) else True for axis in self.axes]
        if self.decode is not None:
            return [Var(tirx.Var(builder.unique_name("wave"), axis.dtype.tvm)) for axis in self.axes]
        names = [builder.fresh_name("i" if len(self.axes) == 1 else f"i{n}") for n in range(len(self.axes))]
        return [
            Var(tirx.Var(f"{name}_step" if step else name, axis.dtype.tvm))
            for name, step, axis in zip(names, stepped, self.axes, strict=True)
        ]

    def targets(self, builder: Builder, variables: Sequence[Var]) -> tuple[Any, ir.Expr | None]:
        """What the loop's target is bound to, and the guard of the body."""
        if self.decode is not None:
            values, guard = self.decode(builder, variables)
        else:
            values, guard = [_stepped(builder, var, axis) for var, axis in zip(variables, self.axes, strict=True)], None
        return (LoneVar(values[0].ir) if len(values) == 1 else tuple(values)), guard

    def build(self, variables: Sequence[Var], body: S.Stmt, span: ir.Span | None, *, broken: bool) -> S.Stmt:
        """The nest around `body`. `broken` says that the body breaks or continues, which only a plain loop can do."""
        kind = KINDS["serial" if broken else self.kind]
        annotations = {} if broken else dict(self.annotations)
        stmt = body
        if set(annotations) == {PARALLEL} and (rank := _box_rank(body, variables)):
            annotations[PARALLEL] += rank
            stmt = S.For(body.loop_var, body.min, body.extent, body.kind, body.body, span=body.span)
        for position, (axis, var) in reversed(list(enumerate(zip(self.axes, variables, strict=True)))):
            start = unwrap(axis.start if _plain(axis) else 0, axis.dtype)
            extent = unwrap(axis.extent, axis.dtype)
            outermost = annotations if position == 0 else {}
            stmt = S.For(var.ir, start, extent, kind, stmt, None, outermost, span=span)
        return stmt


def _box_rank(body: S.Stmt, outer: Sequence[Var]) -> int:
    """The loops of a body that is nothing but a parallel nest, so that it is one nest with the loops around it.

    0 for another body, and for bounds that depend on the outer variables: such nests are no box, and are refused.
    """
    if not isinstance(body, S.For) or set(body.annotations) != {PARALLEL}:
        return 0
    loop, rank = body, int(body.annotations[PARALLEL])
    for _ in range(rank):
        used = [*visit.collect(loop.min, ir.Var), *visit.collect(loop.extent, ir.Var)]
        if any(name.same_as(var.ir) for name in used for var in outer):
            return 0
        loop = loop.body
    return rank


def _plain(axis: Axis) -> bool:
    return isinstance(axis.step, int) and axis.step == 1


def _stepped(builder: Builder, var: Var, axis: Axis) -> Var:
    if _plain(axis):
        return var
    value = axis.start + var * axis.step
    return Var(builder.define(var.name.removesuffix("_step"), value.ir))


def axis_of(what: str, start: Any, stop: Any = None, step: Any = None) -> Axis:
    """The axis of `range(start, stop, step)`, or `range(start)`.

    Raises:
        LoopArgumentError: a bound that is no integer, or a zero step.
    """
    if stop is None:
        start, stop = 0, start
    step = 1 if step is None else step
    start, stop, step = (_bound(what, value) for value in (start, stop, step))
    count = _count(what, start, stop, step)
    dtype = INT32
    for value in (start, stop, step, count):
        dtype = promote(dtype, value.dtype if isinstance(value, Expr) else _index_dtype(what, value))
    return Axis(start, count, step, dtype)


def _index_dtype(what: str, value: int) -> DType:
    if fits(value, INT32):
        return INT32
    if fits(value, INT64):
        return INT64
    raise LoopArgumentError(
        f"{shown(value)} is a bound or the number of iterations of {what}", remedy="give bounds that 64 bits hold"
    )


def _bound(what: str, value: Any) -> Any:
    if isinstance(value, Expr):
        if not value.dtype.is_integer or value.dtype.lanes != 1:
            raise LoopArgumentError(f"a bound of {what} is a {value.dtype}", remedy='cast it: T.cast(n, "int32")')
        known = constant(value.ir)
        # A variable is read now, not where the bound is used.
        return Expr(value.ir) if known is None else known
    if isinstance(value, tirx.Expr):
        return _bound(what, wrap(value))
    number = as_int(value)
    if number is None:
        raise LoopArgumentError(f"a bound of {what} is {value!r}", remedy="give integers or integer expressions")
    return number


def _count(what: str, start: Any, stop: Any, step: Any) -> Any:
    """The number of iterations, at least 0 where it is known."""
    if isinstance(step, int):
        if step == 0:
            raise LoopArgumentError(f"{what} has the step 0", remedy="give a step other than 0")
        if all(isinstance(value, int) for value in (start, stop)):
            return max(0, -((start - stop) // step))
        if step == 1:
            return stop if isinstance(start, int) and start == 0 else stop - start
        return (stop - start + (step - 1)) // step if step > 0 else (start - stop + (-step - 1)) // -step
    from tile_core.frontend import arith

    up, down = (stop - start + step - 1) // step, (start - stop - step - 1) // (-step)
    return Expr(arith.select((step > 0).ir, unwrap(up), arith.select((step < 0).ir, unwrap(down), unwrap(0))))


def serial(start: Any, stop: Any = None, step: Any = None, *, what: str, annotations: Any = None) -> LoopNest:
    """A serial device loop."""
    return LoopNest(what, "serial", (axis_of(what, start, stop, step),), dict(annotations or {}))
