"""Exchanges in languages whose hardware exchanges between the lanes that are active, whoever is asked for.

A mask of some lanes is refused there, not ignored. The threads of a block vote by counting: such a language defines
`tile_count_threads`, a barrier whose value is the number of threads on which a predicate holds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tile_core.ir import regions
from tile_core.printer.language import ExprHandler, Snippet
from tile_core.printer.precedence import EQUAL, NOT_EQUAL, Code, call, cast, prefix

if TYPE_CHECKING:
    from tile_core.printer.printer import Printer

ALL_LANES = 0xFFFFFFFF
"""The mask of an exchange in which every lane takes part."""


def require_all_lanes(printer: Printer, node: Any, mask: Any) -> None:
    """Refuse a mask of some lanes."""
    if regions.constant(mask) != ALL_LANES:
        raise printer.unprintable(f"{printer.describe(node)} of some lanes only", node)


def thread_counter(text: str, *needs: str) -> Snippet:
    """`tile_count_threads` as `text`, of a predicate alone; the emulator has it."""
    emulated = "inline unsigned tile_count_threads(bool predicate) { return tile::count_threads(predicate); }"
    return Snippet(text, needs=needs, emulated=emulated)


def block_votes(*where: Code) -> dict[str, ExprHandler]:
    """The votes of a block; `where` are what `tile_count_threads` takes behind the predicate."""

    def handler(printer: Printer, node: Any) -> Code:
        printer.snippet("tile_count_threads")
        kind, code = str(node.op.name).removeprefix("tile.syncthreads_"), printer.expr(node.args[0])
        count = call("tile_count_threads", prefix("!", code) if kind == "and" else code, *where)
        if kind == "count":
            return cast("int", count)
        return (EQUAL if kind == "and" else NOT_EQUAL).join(count, Code("0"))

    return {f"tile.syncthreads_{kind}": handler for kind in ("and", "or", "count")}


def whole_warp(handler: ExprHandler) -> dict[str, ExprHandler]:
    """The barrier of a warp as `handler` prints it, of all lanes."""

    def checked(printer: Printer, node: Any) -> Code:
        if "mask" in node.attrs:
            raise printer.unprintable(f"sync_warp of the lanes {int(node.attrs['mask']):#x} only", node)
        return handler(printer, node)

    return {"tile.thread.sync_warp": checked}
