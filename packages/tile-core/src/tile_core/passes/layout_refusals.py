"""Why a layout that an author gave cannot be kept: of which tile or loops it is, what stands against it, and where."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tvm import ir

from tile_core.errors.base import SourceSpan
from tile_core.errors.layouts import LayoutError
from tile_core.ir.spans import from_tvm
from tile_core.passes.nests import ParallelNest


@dataclass(frozen=True)
class Given:
    """A layout of the author's: the name of what it is of, and where it is given."""

    name: str
    span: SourceSpan | None


def named(nest: ParallelNest) -> str:
    """A nest in a message: its loops and its line."""
    loops = f"the loop{'s' if len(nest.loops) > 1 else ''} {', '.join(str(var.name) for var in nest.variables)}"
    span = from_tvm(nest.loops[0].span)
    return loops if span is None else f"{loops} of line {span.line}"


def given_to_nest(nest: ParallelNest) -> Given:
    """The layout of a nest."""
    return Given(named(nest), from_tvm(nest.loops[0].span))


def given_to_tile(buffer: ir.Var, span: ir.Span | None) -> Given:
    """The layout of a tile."""
    return Given(str(buffer.name), from_tvm(span))


def without_code(given: Given) -> LayoutError:
    """A layout that deals its axes in a way for which there is no code."""
    return LayoutError(
        f"the layout of {given.name} has no code: its axes are not dealt to threads and registers each by itself",
        remedy="use sums of i // a % b of single indices, each for the thread or for the register",
        span=given.span,
    )


def beyond_the_block(given: Given, last: int, threads: int) -> LayoutError:
    """A layout that names threads which the block, or its group of warps, does not have."""
    return LayoutError(
        f"the layout of {given.name} uses threads 0 to {last}, and {threads} threads work on it",
        remedy=f"use threads below {threads}, or launch at least {last + 1}",
        span=given.span,
    )


def disagreeing(
    given: Sequence[Given], nests: Sequence[ParallelNest], tiles: Sequence[ir.Var], *, by_product: bool
) -> LayoutError:
    """Layouts that differ where something uses them together; `nests` and `tiles` are dealt with them."""
    names = {one.name for one in given}
    where = [name for name in map(named, nests) if name not in names]
    if len(given) > 1:
        users = " and ".join(where) or "a reduction or a product"
        what = f"the layouts of {_joined(given)} differ, and neither can be kept: {users} would need both"
    else:
        others = [name for name in (str(tile.name) for tile in tiles) if name not in names]
        met = "the instructions of a matrix product" if by_product else " and ".join([*others, *where])
        met = met or "extents that are larger, or not known before the call"
        what = f"the layout of {_joined(given)} cannot be kept: it does not fit {met}"
    return LayoutError(
        what, remedy="give all tiles and loops that meet one layout, or none of them", span=given[-1].span
    )


def shared_instead(given: Given, user: ParallelNest | None) -> LayoutError:
    """A fragment with a layout that `user` accesses as no layout in registers allows."""
    use = "its use" if user is None else f"its use in {named(user)}"
    return LayoutError(
        f"the layout of {given.name} cannot be kept: none in registers suits {use}, so it has to be shared",
        remedy="drop the layout, or access the fragment by the loops' own variables",
        span=given.span if user is None else from_tvm(user.loops[0].span),
    )


def _joined(given: Sequence[Given]) -> str:
    return " and ".join(
        f"{one.name} (line {one.span.line})" if one.span and " of line " not in one.name else one.name for one in given
    )
