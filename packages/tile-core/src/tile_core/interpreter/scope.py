"""What is known while a program is made into Python functions: slots of variables, and the position in the program."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from tvm import ir
from tvm.tirx import stmt as S

from tile_core.errors.interpreter import DivergentCollectiveError
from tile_core.interpreter.access import Site
from tile_core.interpreter.signals import Executor
from tile_core.interpreter.space import UNIFORM, same
from tile_core.interpreter.state import Place, State
from tile_core.interpreter.storage import Storage
from tile_core.ir.spans import from_tvm

if TYPE_CHECKING:
    from tile_core.errors.base import SourceSpan
    from tile_core.interpreter.options import Options, StepCallback


@dataclass
class Names:
    """Slots of variables and buffers; shared by all scopes of a program."""

    values: dict[ir.Var, int] = field(default_factory=dict)
    buffers: dict[ir.Var, int] = field(default_factory=dict)
    views: dict[ir.Var, ir.Var] = field(default_factory=dict)
    """What each view is a view of."""
    arithmetic: dict[ir.Var, ir.Expr] = field(default_factory=dict)
    """The arithmetic that names are bound to; indices compute it exactly."""
    data: set[ir.Var] = field(default_factory=set)
    """Arguments that are no sizes, and names of what was computed from them or from memory."""
    by_thread: set[int] = field(default_factory=set)
    """Slots whose values differ between threads."""


OUTSIDE = Place()
Evaluator = Callable[[State], Any]
"""Gives an expression's value, a numpy scalar or an array over the iteration space."""


@dataclass(frozen=True)
class Compilers:
    """What makes functions of expressions and of statements, for the parts that each of them is made of."""

    expr: Callable[[ir.Expr, Scope], Evaluator]
    stmt: Callable[[S.Stmt, Scope], Executor]


@dataclass(frozen=True)
class Scope:
    """A position in the program.

    `vector`: the iteration space has axes here. `threads`: they are the threads of the block. `collective`: all
    threads act together here, so that what differs between them cannot be used. `written`: buffers that the enclosing
    parallel region writes. `workers`: the threads for which a statement stands that is run once.
    """

    names: Names
    options: Options
    compilers: Compilers
    on_step: StepCallback | None = None
    place: Place = OUTSIDE
    span: SourceSpan | None = None
    vector: bool = False
    threads: bool = False
    collective: bool = False
    parallel: bool = False
    written: frozenset[ir.Var] = frozenset()
    workers: int = 1

    def expr(self, expr: ir.Expr) -> Evaluator:
        """The function that evaluates `expr` here."""
        return self.compilers.expr(expr, self)

    def stmt(self, stmt: S.Stmt) -> Executor:
        """The function that runs `stmt` here."""
        return self.compilers.stmt(stmt, self)

    def at(self, node: Any) -> Scope:
        """This scope at a statement."""
        span = from_tvm(node.span)
        return self if span is None else replace(self, span=span)

    def loop(self, var: ir.Var) -> tuple[int, Scope]:
        """A new loop variable: its slot, and the scope of the loop's body."""
        slot = self.declare(var)
        return slot, replace(self, place=self.place.inside(str(var.name), slot))

    def declare(self, var: ir.Var) -> int:
        """The slot of a variable that is bound here."""
        slot = self.names.values.setdefault(var, len(self.names.values))
        if self.threads:
            self.names.by_thread.add(slot)
        return slot

    def read(self, var: ir.Var) -> Callable[[State], Any]:
        """The function that gives a variable's value."""
        slot = self.names.values.setdefault(var, len(self.names.values))
        if not (self.collective and slot in self.names.by_thread):
            return lambda state: state.values[slot]
        span, name = self.span, str(var.name)
        return lambda state: common(state.values[slot], name, span)

    def buffer(self, buffer: ir.Var) -> int:
        """The slot of a buffer."""
        return self.names.buffers.setdefault(buffer, len(self.names.buffers))

    def storage(self, buffer: ir.Var) -> Callable[[State], Storage]:
        """The function that gives a buffer's memory."""
        slot = self.buffer(buffer)
        if not self.collective:
            return lambda state: state.storage(slot)
        span = self.span
        return lambda state: _shared(state.storage(slot), span)

    def site(self, buffer: ir.Var) -> Site:
        """Where an access to `buffer` stands."""
        return Site(self.place, self.span, self.options.check_races and self.root(buffer) in self.written)

    def root(self, buffer: ir.Var) -> ir.Var:
        """The buffer whose memory `buffer` is, or is a view of."""
        while buffer in self.names.views:
            buffer = self.names.views[buffer]
        return buffer


def common(value: Any, name: str, span: SourceSpan | None) -> Any:
    """The value that all threads agree on."""
    if np.ndim(value) == 0:
        return value
    first = value.reshape(-1)[0]
    if same(value, first).all():
        return first
    raise DivergentCollectiveError(
        f"{name} differs between threads, but all threads carry out this operation together",
        remedy="take the thread index out of it",
        span=span,
    )


def _shared(storage: Storage, span: SourceSpan | None) -> Storage:
    """The memory that all threads agree on, where each has its own copy."""
    if not storage.space.threads:
        return storage
    first = storage.data[0]
    written = None if storage.written is None else np.asarray(storage.written.all(axis=0))
    known = np.ones(first.shape, np.bool_) if written is None else written
    if not same(storage.data[:, known], first[known]).all():
        raise DivergentCollectiveError(
            f"{storage.name} differs between threads, but all threads carry out this operation together",
            remedy="take the thread index out of it",
            span=span,
        )
    return Storage(storage.name, storage.dtype, storage.scope, first, written, UNIFORM, storage.safe, storage.undefined)
