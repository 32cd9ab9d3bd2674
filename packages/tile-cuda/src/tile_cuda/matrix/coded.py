"""Products of floats of 8, 6 and 4 bits by their own instructions: which form of codes they take, where they exist.

Warps of sm_120 hold a code a byte. Codes of six bits come from shared memory as they are, those of four bits from
units, which `ldmatrix` takes apart. `tcgen05` reads units of both. What neither covers is multiplied as float16, or as
float8 beside a float8. PTX ISA, "mma" and "tcgen05.mma", `.kind::f8f6f4`.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from tile_core.dtypes import DType, as_dtype
from tile_core.ir import regions
from tile_core.ir.codes import SIX
from tile_core.ops.base import OpCall
from tile_core.passes.coded_tiles import Form
from tile_cuda.instructions.shapes import NARROW_FORMATS, UNITS, find
from tile_cuda.matrix.mma import shared_by_warps
from tile_cuda.matrix.product import sizes
from tile_cuda.matrix.tcgen05 import FIRST, LANES, LAST, MOST_THREADS, columns_at_once, in_tensor_memory, rows_at_once

DEPTH, ROWS = 32, 16
BY_WARPS = 120
_NONE: Mapping[str, Form] = MappingProxyType({})


def coded_forms(call: OpCall, threads: int, capability: int, *, in_memory: bool) -> Mapping[str, Form]:
    """The form of each operand of less than 8 bits, of a `tile.gemm` on tiles of their own dtypes.

    Nothing where no instruction makes the product; `in_memory` tells whether those of tensor memory may.
    """
    dtypes = {side: as_dtype(str(call.region(side).source.dtype)) for side in "ab"}
    narrow = {side: dtype for side, dtype in dtypes.items() if dtype.name in UNITS}
    names = dict(NARROW_FORMATS)
    if not narrow or not all(dtype.name in names for dtype in dtypes.values()) or sizes(call)[2] % DEPTH:
        return _NONE
    if capability >= BY_WARPS:
        return {side: _form(dtype) for side, dtype in narrow.items()} if _by_warps(call, dtypes, threads) else _NONE
    is_there = FIRST <= capability <= LAST and _in_tensor_memory(call, dtypes, threads, in_memory=in_memory)
    return dict.fromkeys(narrow, Form.UNITS) if is_there else _NONE


def _form(dtype: DType) -> Form:
    return Form.BYTES if dtype.bits == SIX else Form.UNITS


def _by_warps(call: OpCall, dtypes: Mapping[str, DType], threads: int) -> bool:
    """Whether warps share the tile. A transposed A of codes in registers is none of theirs."""
    if regions.scope(call.region("c").source) != regions.FRAGMENT or not regions.is_whole(call.region("c")):
        return False
    total = str(call.region("c").source.dtype)
    shape = (ROWS, 8, DEPTH)
    return (
        total in ("float32", "float16", "bfloat16")
        and find("mma", shape, "float32", dtypes["a"].name, dtypes["b"].name) is not None
        and shared_by_warps(call, ROWS, threads) is not None
    )


def _in_tensor_memory(call: OpCall, dtypes: Mapping[str, DType], threads: int, *, in_memory: bool) -> bool:
    """Whether the sums can be there: in a tile of it, or in a fragment beside which one may stand."""
    c = call.region("c")
    if str(c.source.dtype) != "float32" or not regions.is_whole(c):
        return False
    m, n, _k = sizes(call)
    held = {side: regions.scope(call.region(side).source) for side in "ab"}
    if any(held[side] not in regions.SHARED and dtypes[side].name not in UNITS for side in held):
        return False
    if rows_at_once(m) is None or columns_at_once(n) is None:
        return False
    if in_tensor_memory(c.source):
        return True
    is_fragment = regions.scope(c.source) == regions.FRAGMENT
    return in_memory and is_fragment and threads % LANES == 0 and 0 < threads <= MOST_THREADS
