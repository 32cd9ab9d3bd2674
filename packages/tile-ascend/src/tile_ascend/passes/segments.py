"""Where a block's program may be cut: which copies can be made outside of SIMT functions.

What a thread keeps, fragments above all, lives as long as its SIMT function. So a copy may stand between two functions
only where no thread keeps anything over it, and under control flow that is the same for all threads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tvm import ir
from tvm.tirx import stmt as S
from tvm.tirx.buffer import is_buffer_var

from tile_core.ir import regions, visit
from tile_core.ops import OPS
from tile_core.ops.base import op_name, view
from tile_core.passes.ranges import reads_memory
from tile_core.printer.c import ANNOTATIONS

_WRITERS = ("tile.copy", "tile.fill", "tile.reduce")
"""Ops that write all of `dst`; a reduction does where it has `clear`."""
_SHARED = (regions.GLOBAL, *regions.SHARED)


@dataclass(eq=False)
class Segment:
    """Statements that follow each other without a cut; the loops around them, outermost first."""

    loops: tuple[S.For, ...]
    stmts: list[S.Stmt] = field(default_factory=list)


@dataclass
class _Value:
    """What a thread keeps: the loops around its definition, and its uses as segment and place in the program."""

    loops: tuple[S.For, ...]
    uses: list[tuple[Segment, int]] = field(default_factory=list)


class Cuts:
    """`copies` are the statements at which `body` can be cut, `homes` the segment of each allocation of a thread's."""

    def __init__(self, body: S.Stmt, copies: Sequence[S.Stmt]) -> None:
        self.copies = list(copies)
        self._body = body
        self.homes: dict[ir.Var, Segment] = {}
        while self._refused():
            pass

    def _refused(self) -> bool:
        """Whether some copy cannot stand outside; it is one no longer."""
        self._places: dict[int, S.Stmt] = {}
        self._values: dict[ir.Var, _Value] = {}
        self._position = 0
        self._inside: list[tuple[S.Stmt, tuple[S.For, ...], int]] = []
        bad = self._walk([self._body], ())
        for value in self._values.values():
            bad += self._kept_over(value)
        dropped = [copy for copy in self.copies if copy in bad]
        self.copies = [copy for copy in self.copies if copy not in bad]
        self.homes = {var: value.uses[0][0] for var, value in self._values.items() if value.uses and is_buffer_var(var)}
        return bool(dropped)

    def _is_copy(self, stmt: S.Stmt) -> bool:
        return stmt in self.copies

    def _copies_in(self, stmt: S.Stmt) -> list[S.Stmt]:
        return [child for child in visit.statements(stmt) if self._is_copy(child)]

    def _walk(self, stmts: Sequence[S.Stmt], loops: tuple[S.For, ...]) -> list[S.Stmt]:
        """The copies that control flow keeps inside."""
        bad: list[S.Stmt] = []
        segment: Segment | None = None
        for stmt in flat(stmts):
            self._position += 1
            if self._is_copy(stmt):
                self._places[self._position] = stmt
                segment = None
                continue
            inner = self._copies_in(stmt)
            if inner:
                segment = None
                around = (*loops, stmt) if isinstance(stmt, S.For) else loops
                bad += [copy for child in visit.children(stmt) for copy in self._walk([child], around)]
                bad += [] if self._is_uniform(stmt) else inner
                continue
            if isinstance(stmt, S.AllocBuffer):
                if regions.scope(stmt.buffer) not in _SHARED:
                    self._values[stmt.buffer] = _Value(loops)
                continue
            if isinstance(stmt, S.Bind) and self._is_same_for_all(stmt.value):
                continue
            segment = segment or Segment(loops)
            segment.stmts.append(stmt)
            if isinstance(stmt, S.Bind):
                self._values[stmt.var] = _Value(loops)
            for var in dict.fromkeys(visit.collect(stmt, ir.Var)):
                if var in self._values:
                    self._values[var].uses.append((segment, self._position))
        return bad

    def _is_uniform(self, stmt: S.Stmt) -> bool:
        if isinstance(stmt, S.AttrStmt):
            return str(stmt.attr_key) in ANNOTATIONS
        if isinstance(stmt, S.IfThenElse):
            heads = [stmt.condition]
        elif isinstance(stmt, S.For) and stmt.kind in (S.ForKind.SERIAL, S.ForKind.UNROLLED):
            if visit.collect(stmt.body, S.Break) or visit.collect(stmt.body, S.Continue):
                return False
            heads = [stmt.min, stmt.extent]
        else:
            return False
        return all(map(self._is_same_for_all, heads))

    def _is_same_for_all(self, expr: ir.Expr) -> bool:
        """Whether the core's program can tell a value: it reads no memory, and nothing that a thread keeps."""
        return not reads_memory(expr) and not any(var in self._values for var in visit.collect(expr, ir.Var))

    def _kept_over(self, value: _Value) -> list[S.Stmt]:
        """The copies over which a thread keeps `value`."""
        if not value.uses:
            return []
        first, last = value.uses[0], value.uses[-1]
        between = [copy for place, copy in self._places.items() if first[1] < place < last[1]]
        if any(segment is not first[0] for segment, _place in value.uses):
            # Both ways of a branch use it, and no place is the beginning of both.
            return between or self.copies
        carrying = first[0].loops[len(value.loops) :]
        return [] if not carrying or self._begins_anew(value, first[0]) else self._copies_in(carrying[0])

    def _begins_anew(self, value: _Value, segment: Segment) -> bool:
        """Whether a segment writes all of a tile before it reads any of it."""
        (var,) = (each for each, found in self._values.items() if found is value)
        stmt = next(stmt for stmt in segment.stmts if var in visit.collect(stmt, ir.Var))
        if op_name(stmt) not in _WRITERS:
            return False
        call = view(stmt, OPS)
        read = [call.args[operand.name] for operand in call.op.operands if operand.name != "dst"]
        is_read = any(var in visit.collect(part, ir.Var) for part in read) or not call.attrs.get("clear", True)
        return regions.is_whole(call.region("dst")) and not is_read


def flat(stmts: Sequence[S.Stmt]) -> list[Any]:
    """Statements one after another, without sequences among them."""
    return [part for stmt in stmts for part in (flat(list(stmt.seq)) if isinstance(stmt, S.SeqStmt) else [stmt])]
