"""What `infer_layouts` maps together: nests and fragments whose axes are tied, as one group."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tvm import ir

from tile_core.ir import regions
from tile_core.layouts.digits import AxisDigits
from tile_core.passes.accesses import Access


@dataclass(frozen=True)
class Nest:
    """A nest of a group; `classes` number its axes within the group. `is_product`: a step of a matrix product."""

    variables: tuple[ir.Var, ...]
    extents: tuple[Any, ...]
    classes: tuple[int, ...]
    accesses: tuple[Access, ...]
    is_product: bool = False

    @property
    def touches_memory(self) -> bool:
        """Whether it reads or writes shared or global memory."""
        return any(access.scope in (regions.GLOBAL, *regions.SHARED) for access in self.accesses)


@dataclass(frozen=True)
class Node:
    """A fragment of a group. Axes of extent 1 that no nest walks have no class."""

    buffer: ir.Var
    classes: tuple[int, ...]
    is_scalar_read: bool


@dataclass(frozen=True)
class Group:
    """Members that are mapped together. `extents` are those of the classes, the fastest last.

    `digits` are what matrix instructions prescribe for the classes, `None` where the group is free. `scanned` are the
    classes that scans run along.
    """

    extents: tuple[Any, ...]
    nests: tuple[Nest, ...]
    fragments: tuple[Node, ...]
    has_reduction: bool
    digits: tuple[AxisDigits, ...] | None = None
    scanned: frozenset[int] = frozenset()

    @property
    def members(self) -> tuple[Nest | Node, ...]:
        """Nests and fragments."""
        return (*self.nests, *self.fragments)

    @property
    def is_uniform(self) -> bool:
        """Whether every member has every class in the same order and nothing is reduced: it can be mapped flat."""
        whole = tuple(range(len(self.extents)))
        free = not self.has_reduction and not self.scanned
        return free and all(member.classes == whole for member in self.members)

    @property
    def is_product(self) -> bool:
        """Whether it is the tile of a matrix product and what is done to it, element by element."""
        return self.is_uniform and len(self.extents) == 2 and any(nest.is_product for nest in self.nests)

    @property
    def slots(self) -> tuple[tuple[int, ...], ...]:
        """Classes that the same threads walk, the fastest first: no member has two of a slot, so they never meet."""
        found: list[list[int]] = []
        for number in reversed(range(len(self.extents))):
            free = (slot for slot in found if not any(self._meet(number, other) for other in slot))
            slot = next(free, None)
            if slot is None:
                found.append([number])
            else:
                slot.append(number)
        return tuple(map(tuple, found))

    @property
    def fastest(self) -> tuple[int, ...]:
        """The classes of neighbouring threads; a group of single elements has none."""
        return next(iter(self.slots), ())

    def _meet(self, a: int, b: int) -> bool:
        return any(a in member.classes and b in member.classes for member in self.members)

    @property
    def laned(self) -> tuple[int, ...]:
        """The classes that vectors may lie along: the fastest, where they are the last axis of every member."""
        last_of_all = all(number not in member.classes[:-1] for member in self.members for number in self.fastest)
        return self.fastest if last_of_all else ()
