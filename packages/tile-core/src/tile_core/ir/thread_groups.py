"""Regions of a kernel that some of a block's threads run: neighbours, from one multiple of a warp to another.

A group is an attribute around the region. What stands inside is the group's as what stands outside is the block's:
loops and tiles are divided among its threads, and a barrier is one of the group.
"""

from __future__ import annotations

from dataclasses import dataclass

from tvm import tirx
from tvm.tirx import stmt as S

from tile_core.ir import visit

KEY = "tile.thread_group"


@dataclass(frozen=True, order=True)
class ThreadGroup:
    """The threads `first` to `first + count - 1` of a block."""

    first: int
    count: int


def region(group: ThreadGroup, body: S.Stmt) -> S.Stmt:
    """`body` as the program of a group."""
    return S.AttrStmt(tirx.IntImm("int32", group.first), KEY, tirx.IntImm("int32", group.count), body, body.span)


def is_region(stmt: S.Stmt) -> bool:
    """Whether a statement is a group's region."""
    return isinstance(stmt, S.AttrStmt) and stmt.attr_key == KEY


def group_of(stmt: S.AttrStmt) -> ThreadGroup:
    """The group of a region."""
    return ThreadGroup(int(stmt.node.value), int(stmt.value.value))


def regions_in(body: S.Stmt) -> list[S.AttrStmt]:
    """The regions under `body`, in order. They do not nest."""
    return [stmt for stmt in visit.collect(body, S.AttrStmt) if is_region(stmt)]
