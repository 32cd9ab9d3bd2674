"""Products that run beside the threads that issued them, waited for by hand.

A `tile.gemm` with the attribute `IN_FLIGHT` may still run when the next statement begins: until a wait lets it pass,
nothing may touch C, write a tile that it reads, or write A where that is a fragment. Products are made in the order of
their issue. The ops here say when they are issued as a group and when a group is done. A target that is done with a
product when it has issued it has nothing to do for them, which is one of the allowed orders and the reference meaning.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tile_core.errors.ops import OpArgumentError
from tile_core.ir import regions
from tile_core.ir.visit import sequence
from tile_core.ops.base import LowerContext, OpCall, Operand, TileOp

if TYPE_CHECKING:
    import numpy as np
    from tvm.tirx import stmt as S

IN_FLIGHT = "in_flight"
"""Attribute of a `tile.gemm` that is not waited for where it stands."""
MOST_GROUPS = 7


def _check_nothing(_call: OpCall) -> None:
    """No operands, nothing to check."""


def _check_wait(call: OpCall) -> None:
    groups = int(call.attrs["groups"])
    if not 0 <= groups <= MOST_GROUPS:
        raise OpArgumentError(
            f"a wait that leaves {groups} groups of products in flight", remedy=f"give 0 to {MOST_GROUPS}"
        )


def _check_pin(call: OpCall) -> None:
    scope = regions.scope(call.region("registers").source)
    if scope not in (regions.FRAGMENT, regions.LOCAL):
        raise OpArgumentError(
            f"{call.region('registers').source.name} is {scope} memory, which holds no product in registers",
            remedy="give the accumulator: a fragment, or an array of T.alloc_local",
        )


def _reference(_call: OpCall, _operands: Mapping[str, np.ndarray]) -> None:
    """The products are done."""


def _lower(call: OpCall, _context: LowerContext) -> S.Stmt:
    return sequence([], call.span)


PRODUCT_FENCE = TileOp("tile.product_fence", (), _check_nothing, _reference, _lower)
"""What threads wrote to registers is seen by products issued after it."""
PRODUCT_COMMIT = TileOp("tile.product_commit", (), _check_nothing, _reference, _lower)
"""The products issued since the last one are a group. A `tile.gemm` in flight is a group of its own."""
PRODUCT_WAIT = TileOp("tile.product_wait", (), _check_wait, _reference, _lower)
"""Wait until at most the last `groups` groups run."""
PRODUCT_PIN = TileOp("tile.product_pin", (Operand("registers", "rw"),), _check_pin, _reference, _lower)
"""Uses of an accumulator stay on their side of this point."""

PRODUCT_OPS = (PRODUCT_FENCE, PRODUCT_COMMIT, PRODUCT_WAIT, PRODUCT_PIN)
