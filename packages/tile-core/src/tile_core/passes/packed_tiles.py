"""Which buffers of four-bit values are held two to a byte, and what the operands of tile ops are in bytes.

Tensors and shared tiles are, a fragment where every op that touches it moves or multiplies whole bytes of it. Other
tiles, those of a thread and those whose rows are an odd number of values, hold one value an element of its carrier. So
does everything of six bits.
"""

from __future__ import annotations

from collections.abc import Iterator

from tvm import ir, tirx
from tvm.ir.prim import expr as E
from tvm.tirx import stmt as S
from tvm.tirx.buffer import is_buffer_var

from tile_core.dtypes import DType, as_dtype
from tile_core.errors.passes import DataTypeUnsupportedError
from tile_core.ir import regions, visit
from tile_core.ir.nibbles import Parity, halved
from tile_core.ir.regions import constant
from tile_core.ops import OPS
from tile_core.ops.asynchronous import BULK_LOAD, BULK_SEND, BULK_STORE
from tile_core.ops.base import OpCall, op_name, view
from tile_core.ops.build import Tile
from tile_core.ops.copy import ASYNC_COPY, COPY, LAYOUT, axes
from tile_core.ops.fill import FILL
from tile_core.ops.gemm import GEMM, transposed
from tile_core.passes.carried_types import NARROW, NIBBLES, SIXES

COPIES = (COPY, ASYNC_COPY, BULK_LOAD, BULK_STORE, BULK_SEND)
"""Ops that move the region `src` to the region `dst`."""
_PACKED_SCOPES = (regions.GLOBAL, *regions.SHARED)


def narrow(buffer: ir.Var) -> DType | None:
    """The dtype of a buffer of values of four or six bits; `None` for any other."""
    dtype = as_dtype(str(buffer.dtype))
    return dtype if dtype in NARROW else None


def narrow_buffers(func: tirx.PrimFunc) -> list[ir.Var]:
    """Every buffer of such values that a program has or makes."""
    made = [node.buffer for kind in (S.AllocBuffer, S.DeclBuffer) for node in visit.collect(func.body, kind)]
    return [buffer for buffer in (*filter(is_buffer_var, func.params), *made) if narrow(buffer) is not None]


def uses_narrow_types(func: tirx.PrimFunc) -> bool:
    """Whether such types occur in a program at all."""
    names = {str(dtype) for dtype in NARROW}
    if any(str(getattr(getattr(var, "ty", None), "dtype", "")) in names for var in func.params):
        return True
    return bool(narrow_buffers(func)) or any(
        str(getattr(expr.ty, "dtype", "")) in names
        for kind in (E.Cast, E.IntImm, ir.Call)
        for expr in visit.collect(func.body, kind)
    )


class PackedTiles:
    """The decision for one function; `multiplied` are dtypes whose bytes matrix instructions take.

    Raises:
        DataTypeUnsupportedError: a tensor whose rows would begin in the middle of a byte, or another name for a
            fragment.
    """

    def __init__(self, func: tirx.PrimFunc, multiplied: frozenset[str]) -> None:
        self._multiplied = multiplied
        buffers = [buffer for buffer in narrow_buffers(func) if narrow(buffer) in NIBBLES]
        for buffer in buffers:
            _require_whole_bytes(buffer)
        rows = (buffer.shape[-1] for buffer in buffers if len(buffer.shape))
        self.parity = Parity(extent for extent in dict.fromkeys(rows) if isinstance(extent, ir.Var))
        for bind in visit.collect(func.body, S.Bind):
            if not is_buffer_var(bind.var):
                self.parity.bind(bind.var, bind.value)
        self._packed = {buffer for buffer in buffers if self._has_whole_rows(buffer)}
        self._unpack_fragments(func)

    def __contains__(self, buffer: ir.Var) -> bool:
        return buffer in self._packed

    def _has_whole_rows(self, buffer: ir.Var) -> bool:
        scope = regions.scope(buffer)
        if scope not in (*_PACKED_SCOPES, regions.FRAGMENT) or not len(buffer.shape):
            return False
        return scope == regions.GLOBAL or self.parity.is_even(buffer.shape[-1])

    def _unpack_fragments(self, func: tirx.PrimFunc) -> None:
        """Leave packed the fragments of which every use is of whole bytes."""
        touched = {load.source for load in visit.collect(func.body, ir.TensorLoad)}
        touched |= {store.buffer for store in visit.collect(func.body, S.BufferStore)}
        self._packed -= {buffer for buffer in self._packed & touched if regions.scope(buffer) == regions.FRAGMENT}
        calls = [view(stmt, OPS) for stmt in visit.collect(func.body, S.Evaluate) if op_name(stmt) in OPS]
        while True:
            refused = {
                buffer
                for call in calls
                for buffer in _fragments(call)
                if buffer in self._packed and self.in_bytes(call) is None
            }
            if not refused:
                return
            self._packed -= refused

    def in_bytes(self, call: OpCall) -> OpCall | None:
        """An op that works on whole bytes, with regions that count bytes; `None` where it does not.

        The regions are still of the buffers of four-bit values.
        """
        if call.op in COPIES:
            return self._copy(call)
        if call.op is FILL and narrow(call.region("dst").source) in SIXES:
            return call
        if call.op is FILL and self._is_whole_bytes(call.region("dst")):
            return _with_regions(call, {"dst": bytes_of(call.region("dst"))})
        return self._product(call) if call.op is GEMM else None

    def _copy(self, call: OpCall) -> OpCall | None:
        src, dst = call.region("src"), call.region("dst")
        if narrow(src.source) is not narrow(dst.source):
            return None
        if narrow(src.source) in SIXES:
            return call
        if LAYOUT in call.attrs:
            return None
        if not self._is_whole_bytes(src) or not self._is_whole_bytes(dst):
            return None
        ends = len(src.region) - 1, len(dst.region) - 1
        walked = [axis for axis in axes(Tile(src), Tile(dst)) if axis.src == ends[0] or axis.dst == ends[1]]
        if any((axis.src, axis.dst) != ends or axis.broadcast for axis in walked):
            return None
        return _with_regions(call, {"src": bytes_of(src), "dst": bytes_of(dst)})

    def _product(self, call: OpCall) -> OpCall | None:
        """A product whose operands lie along K, so that an instruction takes their bytes as they are."""
        if transposed(call, "a") or not transposed(call, "b"):
            return None
        sides = {side: call.region(side) for side in "ab"}
        if any(str(region.source.dtype) not in self._multiplied for region in sides.values()):
            return None
        if not all(self._is_whole_bytes(region) for region in sides.values()):
            return None
        names = {f"packed_{side}": str(region.source.dtype) for side, region in sides.items()}
        return _with_regions(call, {side: bytes_of(region) for side, region in sides.items()}, **names)

    def bytes_of_matrix(self, region: ir.TensorRegion) -> ir.TensorRegion | None:
        """The region of a packed tile, counted in bytes; `None` where it does not begin and end with one."""
        return bytes_of(region) if self._is_whole_bytes(region) else None

    def _is_whole_bytes(self, region: ir.TensorRegion) -> bool:
        last = region.region[-1]
        return region.source in self._packed and self.parity.is_even(last.min) and self.parity.is_even(last.extent)


def bytes_of(region: ir.TensorRegion) -> ir.TensorRegion:
    """A region whose last axis counts bytes, of the same buffer."""
    *outer, last = region.region
    ranges = [*outer, ir.Range.from_min_extent(halved(last.min), halved(last.extent))]
    return tirx.BufferRegion(region.source, ranges)


def _with_regions(call: OpCall, changed: dict[str, ir.TensorRegion], **attrs: str) -> OpCall:
    return OpCall(call.op, {**call.args, **changed}, {**call.attrs, **attrs}, call.span)


def _fragments(call: OpCall) -> Iterator[ir.Var]:
    for value in call.args.values():
        if isinstance(value, ir.TensorRegion) and regions.scope(value.source) == regions.FRAGMENT:
            yield value.source


def _require_whole_bytes(buffer: ir.Var) -> None:
    """Refuse tensors whose rows begin within bytes, or that are no rows of bytes at all."""
    if regions.scope(buffer) == regions.REDUCER:
        raise DataTypeUnsupportedError(
            f"the reducer {buffer.name} is of {buffer.dtype}", remedy="use a reducer of int32 or float32"
        )
    if regions.scope(buffer) != regions.GLOBAL or not len(buffer.shape):
        return
    extent, strides = constant(buffer.shape[-1]), list(buffer.strides or [])
    at = len(buffer.shape) - 1
    if extent is not None and extent % 2:
        raise DataTypeUnsupportedError(
            f"axis {at} of {buffer.name} is {extent} values of {buffer.dtype}, of which a byte holds two: "
            "its rows would begin in the middle of a byte",
            remedy=f"make axis {at} {extent + 1} long; a kernel may leave the last column alone",
        )
    if strides and constant(strides[-1]) != 1:
        raise DataTypeUnsupportedError(
            f"axis {at} of {buffer.name} has the stride {strides[-1]}, and {buffer.dtype} is held two to a byte",
            remedy=f"pass a tensor whose axis {at} is contiguous",
        )
    if any((value := constant(stride)) is not None and value % 2 for stride in strides[:-1]):
        raise DataTypeUnsupportedError(
            f"{buffer.name} has the strides {tuple(map(str, strides))}, so that rows begin in the middle of a byte",
            remedy="give strides of whole bytes: they count values",
        )
