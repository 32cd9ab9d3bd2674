"""Clusters of blocks, and launches that depend on the one before: ops that only some targets lower.

In the interpreter blocks run one after the other, so a barrier of a cluster has no meaning there. Launches run one
after the other everywhere but on a device that overlaps them, so what a launch says about the next changes no result.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tile_core.ops.base import OpCall, TileOp

if TYPE_CHECKING:
    import numpy as np


def _check(_call: OpCall) -> None:
    """They have no operands."""


def _reference(_call: OpCall, _operands: Mapping[str, np.ndarray]) -> None:
    """Nothing to wait for."""


CLUSTER_ARRIVE = TileOp("tile.cluster_arrive", (), _check, _reference, None)
CLUSTER_WAIT = TileOp("tile.cluster_wait", (), _check, _reference, None)
CLUSTER_SYNC = TileOp("tile.cluster_sync", (), _check, _reference, None)
LAUNCH_WAIT = TileOp("tile.launch_wait", (), _check, _reference, None)
"""Wait until the launch before has ended, or let what it wrote be seen."""
LAUNCH_RELEASE = TileOp("tile.launch_release", (), _check, _reference, None)
"""Let the next launch begin, if it waits by `LAUNCH_WAIT` for what this one writes."""
