"""What `infer_layouts` decides: which thread runs which iteration, and where every fragment lives."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tvm import ir

from tile_core.layouts.mapping import Mapping


@dataclass(frozen=True)
class Placement:
    """How a nest is run or a fragment is held: a mapping of its axes; `classes` are their numbers in the group."""

    mapping: Mapping
    classes: tuple[int, ...]


@dataclass(frozen=True)
class NestPlan(Placement):
    """`spare`: the thread digits (stride, count) along which the nest is replicated; `extents`: the nest's own."""

    extents: tuple[Any, ...]
    spare: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True)
class Head:
    """How many iterations come before the first aligned one: `-start % unit`, `start` being a row's first element."""

    start: ir.Expr
    unit: int


@dataclass(frozen=True)
class GroupThreads:
    """The threads of a group: of each axis class its extent, thread digits (count, stride) and lanes, by number."""

    extents: tuple[int, ...]
    digits: tuple[tuple[tuple[int, int], ...], ...]
    lanes: tuple[int, ...]
    used: int
    block: int


@dataclass
class Plan:
    """What was decided for one function.

    `nests`: by outermost loop variable. `fragments`: those in registers; `groups`: the threads of their groups, where
    they are mapped axis by axis. `shared`: fragments that live in shared memory; `elsewhere`: these, and tiles of
    several names, `named`. `heads`: by the variable of a mapping.
    """

    nests: dict[ir.Var, NestPlan] = field(default_factory=dict)
    fragments: dict[ir.Var, Placement] = field(default_factory=dict)
    groups: dict[ir.Var, GroupThreads] = field(default_factory=dict)
    shared: list[ir.Var] = field(default_factory=list)
    elsewhere: set[ir.Var] = field(default_factory=set)
    named: set[ir.Var] = field(default_factory=set)
    heads: dict[ir.Var, Head] = field(default_factory=dict)
