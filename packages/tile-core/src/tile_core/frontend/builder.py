"""The builder: what a traced function is executed against.

Executing the function appends statements to the innermost open frame. The builder also knows where the user's program
stands (the span every statement gets), which names are taken, and a clock of writes, by which a value read before a
write and used after it is found (see `values.py`).
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from tvm import ir, tirx
from tvm.tirx import stmt as S

from tile_core.errors.base import SourceSpan
from tile_core.errors.frontend import (
    ExpressionDepthError,
    HostStatementError,
    NoBuilderError,
    StaleValueError,
    StatementInExpressionError,
)
from tile_core.frontend.depth import MAX_DEPTH, Depths
from tile_core.frontend.positions import caller_span
from tile_core.frontend.writes import memory_of, mentioned_buffers, touches_buffers, written_buffers
from tile_core.ir import asserts
from tile_core.ir.spans import to_tvm
from tile_core.ir.visit import sequence


@dataclass
class Frame:
    """An open region. A `device` frame runs any number of times; `kernel` marks the body of a launch."""

    device: bool = False
    loop: Any = None
    kernel: bool = False
    stmts: list[S.Stmt] = field(default_factory=list)
    ended: bool = False

    def body(self, span: ir.Span | None = None) -> S.Stmt:
        """The statements collected, as one."""
        return sequence(self.stmts, span)


@dataclass
class Position:
    """Where the user's program stands: the statement's span and the names that it is about to bind."""

    span: SourceSpan | None = None
    tvm_span: ir.Span | None = None
    targets: tuple[str, ...] = ()


@dataclass
class LoopReads:
    """An open device loop and the buffers that values made before it read: the loop must not write them."""

    began: int
    reads: list[ir.Var] = field(default_factory=list)


class Builder:
    """Collects the statements of one function."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.position = Position()
        self.frames: list[Frame] = [Frame()]
        self.loops: list[Any] = []
        self.entry_depth = 0
        self.macros = 0
        self.kernel: Any = None
        self.outputs: list[Any] = []
        self._assertions = 0
        self.attributes: dict[str, Any] = {}
        self.eager: Any = None
        self.clock = 0
        self.last_write: dict[ir.Var, int] = {}
        self._memory: dict[ir.Var, ir.Var] = {}
        self.open_loops: list[LoopReads] = []
        self.broken: tuple[BaseException, SourceSpan | None] | None = None
        self._names: dict[str, int] = {}
        self._expression_only = 0
        self._depths = Depths()

    @property
    def span(self) -> ir.Span | None:
        """The TVM span of the user's current statement."""
        return self.position.tvm_span

    @property
    def source_span(self) -> SourceSpan | None:
        """The same place as errors carry it."""
        return self.position.span

    def at(self, span: SourceSpan | None, targets: tuple[str, ...] = ()) -> None:
        """Move to the user's next statement, which binds `targets`."""
        self.position = Position(span, to_tvm(span), targets)

    def emit(self, stmt: S.Stmt) -> None:
        """Append a statement to the innermost frame.

        Raises:
            HostStatementError: a statement that touches buffers, outside of a kernel.
            StatementInExpressionError: inside a lazily evaluated part of an expression.
        """
        if self._expression_only:
            raise StatementInExpressionError(
                "a statement inside an expression that may not be evaluated", remedy="write an `if` statement"
            )
        written = written_buffers(stmt)
        if self.kernel is None and (written or touches_buffers(stmt)):
            names = ", ".join(dict.fromkeys(str(buffer.name) for buffer in mentioned_buffers(stmt)))
            raise HostStatementError(
                f"this statement works on {names or 'the device'} outside of `T.Kernel`",
                remedy="move it into `with T.Kernel(...)`",
            )
        if self.frames[-1].ended:
            return
        self.frames[-1].stmts.append(stmt)
        if isinstance(stmt, S.DeclBuffer):
            self._memory[stmt.buffer] = self.memory(memory_of(stmt.data))
        if written:
            self.clock += 1
            for buffer in written:
                self.last_write[self.memory(buffer)] = self.clock

    def memory(self, buffer: ir.Var) -> ir.Var:
        """The buffer or pointer whose memory `buffer` is a view of, or itself."""
        return self._memory.get(buffer, buffer)

    def written_since(self, buffer: ir.Var, moment: int) -> bool:
        """Whether the memory of `buffer` was written after `moment` of the clock."""
        return self.last_write.get(self.memory(buffer), 0) > moment

    def evaluate(self, call: ir.Expr) -> None:
        """Append an expression for its effect."""
        self.emit(S.Evaluate(call, self.span))

    def assertion(self, condition: ir.Expr, text: str, *, located: bool = True) -> None:
        """Stop the kernel with `text` unless `condition` holds; `located`: the error shows the line."""
        self._assertions += 1
        self.emit(asserts.assertion(condition, text, self._assertions if located else 0, self.span))

    def unique_name(self, name: str) -> str:
        """`name`, with a suffix if it is taken."""
        count = self._names.get(name)
        self._names[name] = 0 if count is None else count + 1
        if count is None:
            return name
        candidate = f"{name}_{count + 1}"
        return candidate if candidate not in self._names else self.unique_name(name)

    def fresh_name(self, hint: str) -> str:
        """A free name for something made by the current statement: the name it is assigned to, else `hint`."""
        targets = self.position.targets
        if targets:
            self.position.targets = targets[1:]
            hint = targets[0]
        return self.unique_name(hint)

    @contextlib.contextmanager
    def frame(self, *, device: bool = False, loop: Any = None, kernel: bool = False) -> Iterator[Frame]:
        """Collect the statements emitted inside into a new frame; the caller makes a statement of them."""
        opened = Frame(device, loop, kernel)
        self.frames.append(opened)
        depth = len(self.frames)
        try:
            yield opened
        except GeneratorExit:
            raise
        except BaseException as error:
            self.note_broken(error)
            raise
        finally:
            del self.frames[depth - 1 :]

    @contextlib.contextmanager
    def device_loop(self) -> Iterator[None]:
        """A device loop: a value read before it must not be used in it when the loop writes what was read."""
        loop = LoopReads(self.clock)
        self.open_loops.append(loop)
        yield
        self.open_loops.pop()
        for buffer in loop.reads:
            if self.written_since(buffer, loop.began):
                raise StaleValueError(
                    f"an element of {buffer.name} read before the loop is used in it, and the loop writes it",
                    remedy="bind the value to a name before the loop: `v = ...`",
                )

    @contextlib.contextmanager
    def expression_only(self) -> Iterator[None]:
        """Refuse statements: what is traced inside may not be evaluated at run time."""
        self._expression_only += 1
        try:
            yield
        finally:
            self._expression_only -= 1

    def note_broken(self, error: BaseException) -> None:
        """An exception leaves a region that is half traced, from the current statement."""
        self.broken = self.broken or (error, self.source_span)

    @property
    def in_expression(self) -> bool:
        """Whether what is traced may not be evaluated at run time."""
        return self._expression_only > 0

    def bind(self, name: str, value: ir.Expr) -> ir.Var:
        """Bind an expression to an immutable variable."""
        return self.define(self.unique_name(name), value)

    def shallow(self, value: ir.Expr) -> ir.Expr:
        """`value`, bound to a name where it is deeper than passes can walk.

        Raises:
            ExpressionDepthError: it is, where nothing can be bound.
        """
        if self._depths.of(value) <= MAX_DEPTH:
            return value
        if self.in_expression or self.kernel is None:
            raise ExpressionDepthError(
                f"an expression of more than {MAX_DEPTH} nested operations",
                remedy="bind parts of it to names in statements of their own, or write a loop",
            )
        return self.bind("part", value)

    def define(self, name: str, value: ir.Expr) -> ir.Var:
        """The same under a name that is already the caller's."""
        var = tirx.Var(name, value.ty)
        self.emit(S.Bind(var, value, self.span))
        return var

    @property
    def in_device_code(self) -> bool:
        """Whether the innermost frames run under a device condition or in a device loop."""
        return any(frame.device for frame in self.frames)


class _Active(threading.local):
    """The builders of this thread, innermost last: several threads may trace at once."""

    def __init__(self) -> None:
        self.stack: list[Builder] = []


_active = _Active()


def current_builder() -> Builder:
    """The builder of the function being traced.

    Raises:
        NoBuilderError: no function is being traced.
    """
    if not _active.stack:
        raise NoBuilderError(
            "this name of the tile language works only while a kernel is traced",
            remedy="use it inside a function decorated with @T.prim_func, @T.macro or @tl.jit",
            span=caller_span(),
        )
    return _active.stack[-1]


def active_builder() -> Builder | None:
    """The builder of the function being traced, `None` outside a trace."""
    return _active.stack[-1] if _active.stack else None


@contextlib.contextmanager
def building(builder: Builder) -> Iterator[Builder]:
    """Make `builder` current."""
    _active.stack.append(builder)
    try:
        yield builder
    finally:
        _active.stack.pop()
