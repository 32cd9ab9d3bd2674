"""The tile ops. `OPS` is the one table: an op that is not in it does not exist."""

from __future__ import annotations

from collections.abc import Mapping

from tile_core.ops.asynchronous import ASYNCHRONOUS_OPS
from tile_core.ops.atomic import ATOMIC, ATOMIC_VALUE
from tile_core.ops.base import LowerContext, OpCall, Operand, TileOp
from tile_core.ops.cluster import CLUSTER_ARRIVE, CLUSTER_SYNC, CLUSTER_WAIT, LAUNCH_RELEASE, LAUNCH_WAIT
from tile_core.ops.copy import ASYNC_COPY, COPY
from tile_core.ops.fill import FILL
from tile_core.ops.gemm import GEMM
from tile_core.ops.gemm_scaled import GEMM_SCALED
from tile_core.ops.gemm_sp import GEMM_SP
from tile_core.ops.im2col import IM2COL
from tile_core.ops.print import PRINT, PRINT_MESSAGE, PRINT_VALUE
from tile_core.ops.products import PRODUCT_OPS
from tile_core.ops.reduce import REDUCE
from tile_core.ops.reducer import REDUCER_FINALIZE, REDUCER_INIT
from tile_core.ops.scan import SCAN
from tile_core.ops.threads import (
    COMMIT_GROUP,
    NAMED_BARRIER_ARRIVE,
    SYNC_GRID,
    SYNC_THREADS,
    SYNC_WARP,
    WAIT_GROUP,
)
from tile_core.ops.transpose import TRANSPOSE

__all__ = ["OPS", "LowerContext", "OpCall", "Operand", "TileOp"]

OPS: Mapping[str, TileOp] = {
    op.name: op
    for op in (
        COPY,
        ASYNC_COPY,
        FILL,
        GEMM,
        GEMM_SP,
        GEMM_SCALED,
        REDUCE,
        SCAN,
        TRANSPOSE,
        IM2COL,
        ATOMIC,
        ATOMIC_VALUE,
        REDUCER_INIT,
        REDUCER_FINALIZE,
        PRINT,
        PRINT_VALUE,
        PRINT_MESSAGE,
        SYNC_THREADS,
        NAMED_BARRIER_ARRIVE,
        SYNC_WARP,
        SYNC_GRID,
        COMMIT_GROUP,
        WAIT_GROUP,
        *ASYNCHRONOUS_OPS,
        *PRODUCT_OPS,
        CLUSTER_ARRIVE,
        CLUSTER_WAIT,
        CLUSTER_SYNC,
        LAUNCH_WAIT,
        LAUNCH_RELEASE,
    )
}
