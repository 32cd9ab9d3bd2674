"""How a warp holds what `mma` multiplies: "Matrix fragments for mma.m16n8k16" and its relatives, PTX ISA."""

from __future__ import annotations

from tile_cuda.instructions.shapes import LANES, WARPGROUP

__all__ = ["COLUMNS", "QUAD", "WARP", "WARPGROUP"]

WARP = LANES
"""Threads of a warp; `WARPGROUP` has four."""
QUAD = 4
"""Lanes that share a row of an operand."""
COLUMNS = 8
"""Columns of C that an instruction computes."""
