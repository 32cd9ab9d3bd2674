"""The tile ops. `OPS` is the one table: an op that is not in it does not exist."""

from __future__ import annotations

from collections.abc import Mapping

from tile_core.ops.base import LowerContext, OpCall, Operand, TileOp
from tile_core.ops.copy import COPY
from tile_core.ops.fill import FILL
from tile_core.ops.gemm import GEMM
from tile_core.ops.reduce import REDUCE

__all__ = ["OPS", "LowerContext", "OpCall", "Operand", "TileOp"]

OPS: Mapping[str, TileOp] = {op.name: op for op in (COPY, FILL, GEMM, REDUCE)}
