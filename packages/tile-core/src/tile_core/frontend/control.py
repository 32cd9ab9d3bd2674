"""The scopes of control flow: branches, loops, `while` and `with`, as rewritten code drives them.

Each scope is opened with the names that its body assigns. A scope decided while tracing hands values through unchanged.
A scope of the device puts markers into the names that its body rebinds, and checks that no Python state was changed.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from tvm import ir, tirx
from tvm.tirx import stmt as S

from tile_core.errors.frontend import ControlFlowError, LoopUseError
from tile_core.frontend import arith, refusals
from tile_core.frontend.builder import Frame, current_builder
from tile_core.frontend.loops import LoopNest
from tile_core.frontend.markers import UNBOUND, Carried, CarriedVariable, Marker, PythonState, Rebound
from tile_core.frontend.values import Buffer, Value, VarCell, unwrap

Values = tuple[Any, ...]


@dataclass
class OpenLoop:
    """A loop around the current statement, as `break` needs it. `depth` is the number of frames outside of it."""

    what: str
    depth: int
    device: bool
    breakable: bool = True
    ordered: bool = True
    left: bool = False


class _NameScope:
    """The names that a region assigns, from entry to exit."""

    def __init__(
        self, where: str, device: bool, names: tuple[str, ...], scope: Mapping[str, Any], containers: Mapping[str, Any]
    ) -> None:
        self.where = where
        self.device = device
        self.before: Values = tuple(scope.get(name, UNBOUND) for name in names)
        self.span = current_builder().source_span
        reachable = {name: value for name, value in scope.items() if not name.startswith("_tile_")}
        self.state = PythonState({**containers, **reachable}) if device else None

    def carried(self) -> Values:
        """What the names hold at the start of a device loop's body."""
        if not self.device:
            return self.before
        return tuple(self._carried(value) for value in self.before)

    def _carried(self, value: Any) -> Any:
        if isinstance(value, CarriedVariable):
            return CarriedVariable(value.value, self.where, outer=value)
        if isinstance(value, Marker):
            return value
        return CarriedVariable(value, self.where) if isinstance(value, VarCell) else Carried(value, self.where)

    def after(self, *ends: Values) -> Values:
        """What the names hold behind the region, given what they hold at the end of each of its arms."""
        if self.state is not None:
            self.state.check(self.where, self.span)
        return tuple(
            old if all(_same(old, end[position]) for end in ends) else self._rebound([end[position] for end in ends])
            for position, old in enumerate(self.before)
        )

    def _rebound(self, ends: list[Any]) -> Rebound:
        return Rebound(self.where, self.span, any(isinstance(end, Buffer) for end in ends))


def _same(old: Any, new: Any) -> bool:
    held = [value.value if isinstance(value, Carried | CarriedVariable) else value for value in (old, new)]
    return held[0] is held[1]


class BranchScope:
    """`if`: both arms of a device condition are traced, one of a Python condition."""

    def __init__(
        self,
        condition: Any,
        device: bool,
        names: tuple[str, ...],
        scope: Mapping[str, Any],
        containers: Mapping[str, Any],
    ) -> None:
        truth = arith.truth(condition) if device else bool(condition)
        self.device = device and not isinstance(truth, tirx.IntImm)
        self.condition = bool(truth.value) if isinstance(truth, tirx.IntImm) else truth
        self._names = _NameScope("device branch", self.device, names, scope, containers)
        self._span = current_builder().span
        self._arms: list[S.Stmt] = []
        self._then: Values | None = None

    def take_then(self) -> bool:
        """Whether the first arm is traced."""
        return self.device or bool(self.condition)

    def take_else(self) -> bool:
        """Whether the second arm is traced."""
        return self.device or not self.condition

    @contextlib.contextmanager
    def arm(self) -> Iterator[None]:
        """Around one arm."""
        if not self.device:
            yield
            return
        with current_builder().frame(device=True) as frame:
            yield
        self._arms.append(frame.body(self._span))

    def end(self, values: Values) -> Values:
        """After the first arm: what the names hold at the start of the second."""
        self._then = values
        return self._names.before if self.device else values

    def leave(self, values: Values) -> Values:
        """After the last arm."""
        if not self.device:
            return values
        then, *other = self._arms
        builder = current_builder()
        builder.emit(S.IfThenElse(self.condition, then, other[0] if other else None, self._span))
        return self._names.after(self._then or values, values)


class LoopScope:
    """`for`: a device loop, or a Python loop that unrolls."""

    def __init__(
        self,
        nest: LoopNest | None,
        iterable: Any,
        has_else: bool,
        names: tuple[str, ...],
        scope: Mapping[str, Any],
        containers: Mapping[str, Any],
    ) -> None:
        if nest is not None and has_else:
            raise refusals.loop_else(nest.what)
        self._nest = nest
        self._iterable = iterable
        what = "Python loop" if nest is None else f"device loop ({nest.what})"
        self._names = _NameScope(what, nest is not None, names, scope, containers)
        builder = current_builder()
        breakable = nest is None or nest.breakable
        what, ordered = ("for", True) if nest is None else (nest.what, nest.ordered)
        self._open = OpenLoop(what, len(builder.frames), nest is not None, breakable, ordered)
        self._span = builder.span

    def entry(self) -> Values:
        """What the names hold at the start of the body."""
        return self._names.carried()

    def leave(self, values: Values) -> Values:
        """What they hold behind the loop."""
        return values if self._nest is None else self._names.after(values)

    def __enter__(self) -> Self:
        current_builder().loops.append(self._open)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        builder = current_builder()
        builder.loops.pop()
        if error is not None and self._nest is not None:
            builder.note_broken(error)

    def __iter__(self) -> Iterator[Any]:
        if self._nest is None:
            yield from self._iterable
            return
        builder = current_builder()
        nest = self._nest.entered()
        variables = nest.variables(builder)
        with builder.device_loop(), builder.frame(device=True, loop=self._open) as frame:
            targets, guard = nest.targets(builder, variables)
            prologue = list(frame.stmts)
            frame.stmts.clear()
            yield targets
        body = frame.body(self._span)
        if guard is not None:
            body = S.IfThenElse(guard, body, None, self._span)
        whole = Frame(stmts=[*prologue, body]).body(self._span)
        builder.emit(nest.build(variables, whole, self._span, broken=self._open.left))


class WhileScope:
    """`while` on a device condition."""

    def __init__(self, names: tuple[str, ...], scope: Mapping[str, Any], containers: Mapping[str, Any]) -> None:
        self._names = _NameScope("device loop (while)", True, names, scope, containers)
        builder = current_builder()
        self._span = builder.span
        self._open = OpenLoop("while", len(builder.frames), True)
        self._stack = contextlib.ExitStack()
        self._frame: Frame | None = None
        self._condition: Any = None

    def entry(self) -> Values:
        """What the names hold in the condition and at the start of the body."""
        return self._names.carried()

    def __enter__(self) -> Self:
        current_builder().loops.append(self._open)
        return self

    def test(self, condition: Callable[[], Any]) -> bool:
        """Whether the body is traced: not where the condition is false while tracing."""
        builder = current_builder()
        self._stack.enter_context(builder.device_loop())
        with builder.expression_only():
            value = condition()
            known = not isinstance(value, Value)
            node = None if known else arith.truth(unwrap(value))
        if known and not value:
            return False
        if known or (isinstance(node, tirx.IntImm) and int(node.value)):
            raise refusals.endless_while(repr(value))
        self._condition = node
        self._frame = self._stack.enter_context(builder.frame(device=True, loop=self._open))
        return True

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        builder = current_builder()
        self._stack.__exit__(kind, error, trace)
        builder.loops.pop()
        if error is None and self._frame is not None:
            builder.emit(S.While(self._condition, self._frame.body(self._span), self._span))

    def leave(self, values: Values) -> Values:
        """What the names hold behind the loop."""
        return self._names.after(values)


class PlainScope:
    """`with`: Python's, unless the manager says that the device decides whether its body runs."""

    def __init__(
        self, manager: Any, names: tuple[str, ...], scope: Mapping[str, Any], containers: Mapping[str, Any]
    ) -> None:
        if isinstance(manager, LoopNest):
            raise LoopUseError(f"{manager} is a loop and is opened by `with`", remedy="write `for i in ...`")
        if not hasattr(manager, "__enter__"):
            word = getattr(manager, "tile_opened_by", None)
            raise LoopUseError(
                f"`with` a {type(manager).__name__}, which opens nothing",
                remedy=f"write `{word} {manager}(...)`" if word else "give a context manager, such as T.Kernel(...)",
            )
        self._manager = manager
        self._device = bool(getattr(manager, "tile_device_scope", False))
        self._names = _NameScope("device region", self._device, names, scope, containers)

    def __enter__(self) -> Any:
        return self._manager.__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> Any:
        return self._manager.__exit__(kind, error, trace)

    def leave(self, values: Values) -> Values:
        """What the names hold behind the block."""
        return self._names.after(values) if self._device else values


def leave_loop(word: str, statement: Callable[[ir.Span | None], S.Stmt]) -> bool:
    """`break` or `continue`: true where Python is to do it, else the statement is emitted.

    Raises:
        ControlFlowError: the loop has no order, or a device condition would steer a Python loop.
    """
    builder = current_builder()
    if not builder.loops:
        raise ControlFlowError(f"`{word}` outside of a loop of this function", remedy="use it in a loop")
    loop: OpenLoop = builder.loops[-1]
    between = builder.frames[loop.depth :]
    if not loop.device:
        if any(frame.device for frame in between):
            raise ControlFlowError(
                f"`{word}` under a device condition in a loop that Python unrolls",
                remedy="loop with T.serial or range, or decide with a Python condition",
            )
        return True
    if not loop.breakable:
        raise refusals.unordered(word, loop.what)
    if any(frame.kernel for frame in between):
        raise ControlFlowError(f"`{word}` would leave the kernel", remedy="decide on the host, outside of T.Kernel")
    builder.emit(statement(builder.span))
    loop.left = True
    builder.frames[-1].ended = True
    return False


def refuse_return(word: str) -> None:
    """Refuse `return` where the device decides whether it is reached."""
    builder = current_builder()
    if any(frame.device for frame in builder.frames[builder.entry_depth :]):
        raise refusals.device_return(word)
