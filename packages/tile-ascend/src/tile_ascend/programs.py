"""Reads the program of a core from the body of a launch.

`pipes.py` adds what makes pipes wait, `launches.py` prints it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tvm import ir
from tvm.tirx import stmt as S

from tile_ascend.cube import CUBE_CALLS, instructions
from tile_ascend.passes.engine_copies import ENGINE_COPY
from tile_ascend.passes.segments import flat
from tile_ascend.steps import Branch, Copy, Declaration, Function, Loop, Program, Step
from tile_core.ir import regions, visit
from tile_core.ir.alignment import IS_ALIGNED
from tile_core.ir.views import view_roots
from tile_core.ops.threads import called
from tile_core.passes.insert_barriers import is_barrier
from tile_core.passes.plan_shared_memory import OFFSET, size_in_bytes
from tile_core.passes.ranges import reads_memory

if TYPE_CHECKING:
    from tile_core.ir.launch import Launch


def has_copies(stmt: S.Stmt) -> bool:
    """Whether a statement holds work of an engine or of the Cube unit."""
    return any(called(call) in (ENGINE_COPY, *CUBE_CALLS) for call in visit.collect(stmt, ir.Call))


def program(launch: Launch) -> Program:
    """The program of a core for a launch; one function where no engine copies."""
    spans = {}
    for alloc in visit.collect(launch.body, S.AllocBuffer):
        if OFFSET in alloc.annotations:
            first = int(alloc.annotations[OFFSET])
            spans[alloc.buffer] = (first, first + size_in_bytes(alloc.buffer))
    steps = _Reader(frozenset(launch.thread_vars)).steps([launch.body], ())
    return Program(steps, spans, view_roots(launch.body))


class _Reader:
    """Cuts statements into steps. `own` are the names that only a thread has."""

    def __init__(self, own: frozenset[ir.Var]) -> None:
        self._own = set(own)
        self._loaded: set[ir.Var] = set()

    def steps(self, stmts: Sequence[S.Stmt], names: tuple[S.Bind, ...]) -> list[Step]:
        """`names` are of values that each function computes anew where it uses them: of the thread, of an address."""
        if not any(map(has_copies, stmts)):
            return [_function(list(stmts), names)]
        steps: list[Step] = []
        run: list[S.Stmt] = []

        def close() -> None:
            if any(not is_barrier(stmt) and not isinstance(stmt, S.AllocBuffer) for stmt in run):
                steps.append(_function(_trimmed(run), names))
            run.clear()

        for stmt in flat(stmts):
            if called(stmt) == ENGINE_COPY:
                close()
                steps.append(Copy(stmt.value, stmt.span))
            elif called(stmt) in CUBE_CALLS:
                steps += instructions(stmt.value, stmt.span)
            elif isinstance(stmt, S.AllocBuffer) and regions.scope(stmt.buffer) in regions.SHARED:
                steps.append(Declaration(stmt))
            elif isinstance(stmt, S.Bind) and self._is_computed(stmt):
                if self._is_of_core(stmt):
                    steps.append(Declaration(stmt))
                else:
                    self._own.add(stmt.var)
                    names = (*names, stmt)
            elif not has_copies(stmt):
                run.append(stmt)
                self._loaded |= {stmt.var} if isinstance(stmt, S.Bind) else set()
            else:
                close()
                steps += self._control(stmt, names)
        close()
        return steps

    def _is_computed(self, bind: S.Bind) -> bool:
        """Whether a value is of names alone, so that it is the same whenever it is computed."""
        if called(bind.value) == IS_ALIGNED:
            return True
        loaded = any(var in self._loaded for var in visit.collect(bind.value, ir.Var))
        return not loaded and not reads_memory(bind.value)

    def _is_of_core(self, bind: S.Bind) -> bool:
        own = any(var in self._own for var in visit.collect(bind.value, ir.Var))
        return not own and called(bind.value) != IS_ALIGNED

    def _control(self, stmt: Any, names: tuple[S.Bind, ...]) -> list[Step]:
        if isinstance(stmt, S.For):
            return [Loop(stmt, self.steps([stmt.body], names))]
        if isinstance(stmt, S.IfThenElse):
            parts = (stmt.then_case, stmt.else_case)
            then, otherwise = ([] if part is None else self.steps([part], names) for part in parts)
            return [Branch(stmt, then, otherwise)]
        return self.steps([stmt.body], names)


def _function(stmts: list[S.Stmt], names: tuple[S.Bind, ...]) -> Function:
    """The function of some statements, and of those names that they use."""
    used = {var for stmt in stmts for var in visit.collect(stmt, ir.Var)}
    taken: list[S.Stmt] = []
    for bind in reversed(names):
        if bind.var in used:
            taken.insert(0, bind)
            used.update(visit.collect(bind.value, ir.Var))
    return Function([*taken, *stmts])


def _trimmed(run: list[S.Stmt]) -> list[S.Stmt]:
    """Without barriers at either end: a function begins when all threads have ended the last one."""
    work = [place for place, stmt in enumerate(run) if not is_barrier(stmt) and not isinstance(stmt, S.AllocBuffer)]
    return [stmt for place, stmt in enumerate(run) if not is_barrier(stmt) or work[0] < place < work[-1]]
