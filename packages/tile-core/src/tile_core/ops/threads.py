"""Barriers and exchanges between the threads of a block.

A block that runs as one program is always in step with itself, and its copies are complete when they return, so
`tile.sync_threads` and `tile.sync_warp` lower to nothing there. What exchanges values between threads has no such
meaning: `NEEDS_THREADS` lists those intrinsics, which `passes/check_semantics.py` refuses on targets whose blocks
have no threads.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tvm.tirx import stmt as S

from tile_core.ir.visit import sequence
from tile_core.ops.base import LowerContext, OpCall, TileOp

if TYPE_CHECKING:
    import numpy as np

NEEDS_THREADS = frozenset(
    f"tile.{name}"
    for name in (
        "activemask",
        "all_sync",
        "any_sync",
        "ballot_sync",
        "shfl_down",
        "shfl_sync",
        "shfl_up",
        "shfl_xor",
        "syncthreads_and",
        "syncthreads_count",
        "syncthreads_or",
        "warp_reduce_bitand",
        "warp_reduce_bitor",
        "warp_reduce_max",
        "warp_reduce_min",
        "warp_reduce_sum",
    )
)


def _check(_call: OpCall) -> None:
    """A barrier has no operands."""


def _reference(_call: OpCall, _operands: Mapping[str, np.ndarray]) -> None:
    """One program is in step with itself."""


def _lower(call: OpCall, _context: LowerContext) -> S.Stmt:
    return sequence([], call.span)


SYNC_THREADS = TileOp("tile.sync_threads", (), _check, _reference, _lower)
SYNC_WARP = TileOp("tile.sync_warp", (), _check, _reference, _lower)
COMMIT_GROUP = TileOp("tile.commit_group", (), _check, _reference, _lower)
WAIT_GROUP = TileOp("tile.wait_group", (), _check, _reference, _lower)
SYNC_GRID = TileOp("tile.sync_grid", (), _check, _reference, None)
