"""The program of a core, as data: SIMT functions, copies by engines, and the control flow around them.

`program` reads it from the body of a launch; `pipes.py` adds what makes pipes wait, `launches.py` prints it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tvm import ir
from tvm.tirx import stmt as S

from tile_ascend.passes.engine_copies import ENGINE_COPY
from tile_ascend.passes.segments import flat
from tile_core.ir import regions, visit
from tile_core.ir.views import view_roots
from tile_core.ops.threads import called
from tile_core.passes.insert_barriers import is_barrier
from tile_core.passes.plan_shared_memory import OFFSET, size_in_bytes
from tile_core.passes.ranges import reads_memory


@dataclass
class Function:
    """Statements that the threads of a SIMT function carry out."""

    stmts: list[S.Stmt]


@dataclass
class Copy:
    """A copy by an engine."""

    call: ir.Call
    span: Any

    @property
    def loads(self) -> bool:
        """Whether it brings a tile."""
        return bool(self.call.attrs["loads"])

    @property
    def tile(self) -> ir.TensorLoad:
        """The first element of the tile."""
        return self.call.args[0].args[0]

    @property
    def tensor(self) -> ir.TensorLoad:
        """The first element of the tensor."""
        return self.call.args[1].args[0]


@dataclass
class Declaration:
    """A tile, or a name for a number."""

    stmt: S.AllocBuffer | S.Bind


@dataclass
class Loop:
    """A loop of the core's program."""

    stmt: S.For
    body: list[Step]


@dataclass
class Branch:
    """A branch of the core's program."""

    stmt: S.IfThenElse
    then: list[Step]
    otherwise: list[Step]


@dataclass
class Wait:
    """Pipe `after` waits for what pipe `before` has begun, by an event; one pipe waits for itself, `ALL` for all."""

    before: str
    after: str
    event: int = 0


Step = Function | Copy | Declaration | Loop | Branch | Wait


@dataclass(frozen=True)
class Program:
    """What a core does for one block, and the bytes of the unified buffer at which each tile lies."""

    steps: list[Step]
    spans: Mapping[ir.Var, tuple[int, int]] = field(default_factory=dict)
    roots: Mapping[ir.Var, ir.Var] = field(default_factory=dict)


def has_copies(stmt: S.Stmt) -> bool:
    """Whether a statement holds a copy by an engine."""
    return any(called(call) == ENGINE_COPY for call in visit.collect(stmt, ir.Call))


def program(body: S.Stmt) -> Program:
    """The program of a core whose launch has `body`; one function where no engine copies."""
    allocations = [alloc for alloc in visit.collect(body, S.AllocBuffer) if OFFSET in alloc.annotations]
    spans = {}
    for alloc in allocations:
        first = int(alloc.annotations[OFFSET])
        spans[alloc.buffer] = (first, first + size_in_bytes(alloc.buffer))
    return Program(_steps([body]), spans, view_roots(body))


def _steps(stmts: Sequence[S.Stmt]) -> list[Step]:
    if not any(map(has_copies, stmts)):
        return [Function(list(stmts))]
    steps: list[Step] = []
    run: list[S.Stmt] = []

    def close() -> None:
        inner = [stmt for stmt in run if not isinstance(stmt, S.AllocBuffer)]
        if any(not is_barrier(stmt) for stmt in inner):
            steps.append(Function(_trimmed(run)))
        run.clear()

    for stmt in flat(stmts):
        if called(stmt) == ENGINE_COPY:
            close()
            steps.append(Copy(stmt.value, stmt.span))
        elif _is_declared_outside(stmt):
            steps.append(Declaration(stmt))
        elif not has_copies(stmt):
            run.append(stmt)
        else:
            close()
            steps += _control(stmt)
    close()
    return steps


def _is_declared_outside(stmt: S.Stmt) -> bool:
    if isinstance(stmt, S.AllocBuffer):
        return regions.scope(stmt.buffer) in regions.SHARED
    return isinstance(stmt, S.Bind) and not reads_memory(stmt.value)


def _control(stmt: Any) -> list[Step]:
    if isinstance(stmt, S.For):
        return [Loop(stmt, _steps([stmt.body]))]
    if isinstance(stmt, S.IfThenElse):
        return [Branch(stmt, _steps([stmt.then_case]), [] if stmt.else_case is None else _steps([stmt.else_case]))]
    return _steps([stmt.body])


def _trimmed(run: list[S.Stmt]) -> list[S.Stmt]:
    """Without barriers at either end: a function begins when all threads have ended the last one."""
    work = [place for place, stmt in enumerate(run) if not is_barrier(stmt) and not isinstance(stmt, S.AllocBuffer)]
    return [stmt for place, stmt in enumerate(run) if not is_barrier(stmt) or work[0] < place < work[-1]]
