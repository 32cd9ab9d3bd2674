"""What work has read and written since the last barrier: what `insert_barriers` knows at each place of a program."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import zip_longest

from tvm import ir

from tile_core.ir import regions
from tile_core.ir.thread_groups import ThreadGroup

MOST_PIECES = 8
"""Pieces of work in flight that are told apart: no wait leaves more."""


@dataclass(frozen=True)
class Touched:
    """Buffers read and written since the last barrier; `beside` are those of regions, by their group of threads.

    `lingering` are those that work in flight still reads, piece by piece, the oldest first.
    """

    reads: frozenset[ir.Var] = frozenset()
    writes: frozenset[ir.Var] = frozenset()
    beside: Mapping[ThreadGroup, Touched] = field(default_factory=dict)
    lingering: tuple[frozenset[ir.Var], ...] = ()

    def __or__(self, other: Touched) -> Touched:
        """What one of two ways to the same place leaves."""
        beside = dict(self.beside)
        for group, touched in other.beside.items():
            beside[group] = beside.get(group, CLEAN) | touched
        lingering = _either(self.lingering, other.lingering)
        return Touched(self.reads | other.reads, self.writes | other.writes, beside, lingering)

    def then(self, later: Touched) -> Touched:
        """What two pieces of work leave, one after the other."""
        oldest, last = self.lingering[: 1 - MOST_PIECES], self.lingering[1 - MOST_PIECES :]
        lingering = (frozenset().union(*oldest), *last) if oldest else last
        lingering += later.lingering
        return replace(self | replace(later, lingering=()), lingering=lingering)

    def landed(self, pieces: int) -> Touched:
        """What is left of it behind a wait for all but the last `pieces` in flight."""
        return replace(self, lingering=self.lingering[-pieces:] if pieces else ())

    def passed(self) -> Touched:
        """What is left of it behind a barrier."""
        return Touched(reads=frozenset().union(*self.lingering), lingering=self.lingering)

    def within_a_block(self) -> Touched:
        """Without global memory."""
        return replace(self, reads=_of_block(self.reads), writes=_of_block(self.writes))

    def passed_by(self, buffer: ir.Var) -> Touched:
        """What is left of it behind a barrier that only orders accesses of `buffer`."""
        kept = frozenset({buffer})
        return replace(self, reads=self.reads - kept, writes=self.writes - kept)

    def conflicts(self, later: Touched) -> bool:
        """Whether `later` may not follow without a barrier of the block."""
        own = self.writes & (later.reads | later.writes) or self.reads & later.writes
        return bool(own) or any(touched.conflicts(later) for touched in self.beside.values())


def _either(one: tuple[frozenset[ir.Var], ...], other: tuple[frozenset[ir.Var], ...]) -> tuple[frozenset[ir.Var], ...]:
    """The same number of last pieces, whichever way was taken."""
    pieces = zip_longest(one[::-1], other[::-1], fillvalue=frozenset[ir.Var]())
    return tuple(first | second for first, second in pieces)[::-1]


def _of_block(found: frozenset[ir.Var]) -> frozenset[ir.Var]:
    return frozenset(var for var in found if regions.scope(var) != regions.GLOBAL)


CLEAN = Touched()
