"""The table of ops: names, operands, and that each op that portable programs need has a lowering."""

from __future__ import annotations

import pytest

from tile_core.ops import OPS
from tile_core.ops.asynchronous import ASYNCHRONOUS_OPS
from tile_core.ops.base import PREFIX

WITHOUT_PORTABLE_LOWERING = {
    "tile.cluster_arrive",
    "tile.cluster_sync",
    "tile.cluster_wait",
    "tile.launch_release",
    "tile.launch_wait",
    "tile.named_barrier_arrive",
    "tile.sync_grid",
    *(op.name for op in ASYNCHRONOUS_OPS),
}


@pytest.mark.parametrize("name", sorted(OPS))
def test_declaration(name: str) -> None:
    op = OPS[name]
    assert op.name == name
    assert name.startswith(PREFIX)
    operands = [operand.name for operand in op.operands]
    assert len(set(operands)) == len(operands)
    assert op.check.__doc__ or op.check.__name__.startswith("_check")
    assert (op.lower is None) == (name in WITHOUT_PORTABLE_LOWERING)
