"""How much memory the tiles of a program take, as the author declared them.

Counted on the program before any pass, so that every target says the same: what a target makes of it (tiles that share
bytes, fragments that move to shared memory) stands beside it in its own part of the report.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from tvm import ir, tirx
from tvm.tirx import stmt as S

from tile_core.dtypes import DType
from tile_core.ir import launch as launch_ir
from tile_core.ir import regions, visit

REGISTER_BYTES = 4
_SPREAD = (regions.FRAGMENT, regions.REDUCER)
_OWN = (regions.LOCAL, regions.VAR)


def footprint(program: tirx.PrimFunc) -> dict[str, Any]:
    """Bytes of the tiles of one block, and bytes and 32-bit registers of one of its threads.

    `shared_bytes` and `fragment_bytes` count a block. A thread has its part of every fragment and the whole of every
    local array; these two entries are missing where the program does not say how many threads a block has. Of several
    launches the largest counts. `buffers` lists every tile; `bytes` is `None` where an extent is not constant, and such
    a tile is in no sum.
    """
    launches = [launch_ir.from_stmt(stmt) for stmt in launch_ir.launches(program.body)]
    each = [_tiles(launch.body) for launch in launches]
    facts: dict[str, Any] = {
        "shared_bytes": max((_total(tiles, regions.SHARED) for tiles in each), default=0),
        "fragment_bytes": max((_total(tiles, _SPREAD) for tiles in each), default=0),
    }
    if launches and all(launch.threads_given for launch in launches):
        pairs = zip(launches, each, strict=True)
        facts["bytes_a_thread"] = max(_of_a_thread(tiles, prod(launch.threads)) for launch, tiles in pairs)
        facts["registers_a_thread"] = -(-facts["bytes_a_thread"] // REGISTER_BYTES)
    return {**facts, "buffers": [tile for tiles in each for tile in tiles]}


def _tiles(body: S.Stmt) -> list[dict[str, Any]]:
    return [_described(node.buffer) for node in visit.collect(body, S.AllocBuffer)]


def _described(buffer: ir.Var) -> dict[str, Any]:
    dtype = DType(buffer.dtype)
    extents = [regions.constant(extent) for extent in buffer.shape]
    known = [extent for extent in extents if extent is not None]
    return {
        "name": str(buffer.name),
        "scope": regions.scope(buffer),
        "dtype": dtype.name,
        "shape": [str(axis) if extent is None else extent for axis, extent in zip(buffer.shape, extents, strict=True)],
        "bytes": dtype.nbytes(prod(known)) if len(known) == len(extents) else None,
    }


def _total(tiles: Sequence[dict[str, Any]], scopes: Sequence[str]) -> int:
    return sum(tile["bytes"] or 0 for tile in tiles if tile["scope"] in scopes)


def _of_a_thread(tiles: Sequence[dict[str, Any]], threads: int) -> int:
    parts = (-(-(tile["bytes"] or 0) // threads) for tile in tiles if tile["scope"] in _SPREAD)
    return sum(parts) + _total(tiles, _OWN)
