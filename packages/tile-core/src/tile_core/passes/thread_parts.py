"""The programs of a launch: one for all threads of the block, and one for each group of them (`ir/thread_groups.py`).

Regions of one group are one program, in which a fragment of the group lives. A fragment that several programs use is
held by none of their threads alone: it is for shared memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

from tvm import ir
from tvm.tirx import stmt as S

from tile_core.ir import regions, thread_groups, visit
from tile_core.ir.launch import Launch


@dataclass(frozen=True)
class Part:
    """A program and the number of threads that run it."""

    threads: int
    body: S.Stmt


def parts_of(launch: Launch) -> tuple[list[Part], frozenset[ir.Var]]:
    """The programs of a launch, and the fragments that more than one of them uses."""
    found: dict[thread_groups.ThreadGroup, list[S.Stmt]] = {}
    for stmt in thread_groups.regions_in(launch.body):
        found.setdefault(thread_groups.group_of(stmt), []).append(stmt.body)
    if not found:
        return [Part(prod(launch.threads), launch.body)], frozenset()
    outer = visit.mutate(launch.body, (S.AttrStmt, _without_region))
    bodies = [outer, *(visit.sequence(stmts) for stmts in found.values())]
    threads = [prod(launch.threads), *(group.count for group in found)]
    allocations = {
        alloc.buffer: alloc
        for alloc in visit.collect(launch.body, S.AllocBuffer)
        if regions.scope(alloc.buffer) == regions.FRAGMENT
    }
    users = {fragment: [at for at, body in enumerate(bodies) if _uses(body, fragment)] for fragment in allocations}
    parts = []
    for at, (count, body) in enumerate(zip(threads, bodies, strict=True)):
        own = [alloc for fragment, alloc in allocations.items() if users[fragment] == [at]]
        parts.append(Part(count, visit.sequence([*own, visit.mutate(body, (S.AllocBuffer, _without_fragment))])))
    return parts, frozenset(fragment for fragment, at in users.items() if len(at) > 1)


def _uses(body: S.Stmt, fragment: ir.Var) -> bool:
    bare = visit.mutate(body, (S.AllocBuffer, _without_fragment))
    return any(var.same_as(fragment) for var in visit.collect(bare, ir.Var))


def _without_region(stmt: S.AttrStmt, mutator: Any) -> S.Stmt:
    return visit.sequence([], stmt.span) if thread_groups.is_region(stmt) else mutator.default_mutate(stmt)


def _without_fragment(alloc: S.AllocBuffer, _mutator: Any) -> S.Stmt:
    return visit.sequence([], alloc.span) if regions.scope(alloc.buffer) == regions.FRAGMENT else alloc
