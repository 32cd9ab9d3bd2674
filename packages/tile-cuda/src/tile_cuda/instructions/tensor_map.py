"""Tensor maps: what the tensor copy engine knows of a tensor, made by the driver in host code.

    Bind(var, tensor_map(…))        in front of the launch nests that use `var`, a variable of type `DESCRIPTOR`

`lower_tensor_maps` turns it into the words of a `tile.descriptor`, of which `launch.ll` makes a map through
`cuTensorMapEncodeTiled`, and the emulator in `cuda_async.h`:

    0 address    1..5 extents    6..9 strides of axes 1.. in bytes    10..12 box, 13..15 element strides: uint32 pairs
    16 data type    17 rank    18 swizzle    19 L2 promotion    20 fill    21 bytes of an element

Axes run innermost first. A tensor without elements is described with extents of 1: no kernel copies of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tvm import ir, tirx
from tvm.ir.prim import expr as E
from tvm.tirx import stmt as S

from tile_core.device import SplitProgram, address_of_data
from tile_core.dtypes import DType
from tile_core.ir import visit
from tile_core.ir.descriptors import DESCRIPTOR, descriptor
from tile_core.ir.ops import tile_op
from tile_core.printer.language import Snippet

MOST_AXES = 5
ALIGNMENT = 16
"""Address and strides are multiples of this many bytes."""
LARGEST_BOX = 256
SWIZZLES = {0: 0, 32: 1, 64: 2, 128: 3}
"""Bytes in which 16-byte units are permuted to `CUtensorMapSwizzle`."""
_PROMOTIONS = {0: 0, 64: 1, 128: 2, 256: 3}
TYPES = {
    "uint8": 0,
    "uint16": 1,
    "uint32": 2,
    "int32": 3,
    "uint64": 4,
    "int64": 5,
    "float16": 6,
    "float32": 7,
    "float64": 8,
    "bfloat16": 9,
}
"""`CUtensorMapDataType`; other types are moved as unsigned integers of their size."""


def tensor_map(
    pointer: ir.Expr,
    extents: Sequence[ir.Expr | int],
    strides: Sequence[ir.Expr | int],
    *,
    dtype: str,
    box: Sequence[int],
    swizzle: int = 0,
    promotion: int = 128,
) -> ir.Expr:
    """The map of a tensor at `pointer` (`address_of` of its first element), the value of a `Bind` in host code.

    Args:
        pointer: a multiple of 16 at run time.
        extents: of each of 1 to 5 axes, innermost first; int64.
        strides: in bytes, of each axis but the innermost, whose elements are neighbours; int64, multiples of 16.
        dtype: of the elements; counts when a copy adds.
        box: elements of one copy along each axis, at most 256.
        swizzle: 0, or 32, 64 or 128, the bytes of a row of the box.
        promotion: bytes that are brought into the second-level cache at a time.

    Raises:
        ValueError: what no tensor map can say.
    """
    rank, itemsize = len(box), _itemsize(dtype)
    if not 1 <= rank <= MOST_AXES or len(extents) != rank or len(strides) != rank - 1:
        raise ValueError(f"a tensor map has 1 to 5 axes, each with an extent: {len(extents)} extents, box {list(box)}")
    if any(not 1 <= edge <= LARGEST_BOX for edge in box) or box[0] * itemsize % ALIGNMENT:
        raise ValueError(
            f"a box has edges from 1 to 256 and rows of a multiple of 16 bytes, not {list(box)} of {dtype}"
        )
    # Shorter rows would lie apart by the bytes of the swizzle (CUDA C++ Programming Guide, "Swizzle modes").
    if swizzle not in SWIZZLES or (swizzle and box[0] * itemsize != swizzle):
        raise ValueError(f"rows of {box[0] * itemsize} bytes are not swizzled in {swizzle} bytes")
    operands = [pointer, *map(_int64, extents), *map(_int64, strides)]
    attrs = {
        "rank": rank,
        "dtype": dtype,
        "box": [int(edge) for edge in box],
        "swizzle": swizzle,
        "promotion": promotion,
    }
    return ir.Call(tile_op("cuda.tensor_map"), operands, attrs=attrs, ret_ty=DESCRIPTOR)


def tensor_map_fits(pointer: ir.Expr, *strides: ir.Expr | int) -> ir.Expr:
    """Whether a tensor's address and its strides in bytes are multiples of 16: a condition of host code."""
    operands = [pointer, *map(_int64, strides)]
    return ir.Call(tile_op("cuda.tensor_map_fits", pure=True), operands, ret_ty=ir.PrimType("bool"))


def lower_tensor_maps(program: SplitProgram) -> SplitProgram:
    """`program` whose host half has words for tensor maps, and arithmetic for `tensor_map_fits`."""
    symbol = str(program.host.attrs["global_symbol"])

    def bind(node: S.Bind, mutator: Any) -> S.Stmt:
        call = node.value
        if not _is_call(call, "cuda.tensor_map"):
            return mutator.default_mutate(node)
        name = f"{node.var.name} of kernel {symbol}"
        return S.Bind(node.var, descriptor(name, _words(call)), node.span)

    def fits(node: ir.Call, mutator: Any) -> ir.Expr:
        return _fits(node) if _is_call(node, "cuda.tensor_map_fits") else mutator.default_mutate(node)

    body = visit.mutate(program.host.body, (S.Bind, bind), (ir.Call, fits))
    return replace(program, host=program.host.with_body(body, program.host.span))


def explain_words(words: Sequence[int], name: str) -> str:
    """What the words of a descriptor say, for messages."""
    address, rank = words[0], words[17]
    boxes = [half for pair in words[10:13] for half in (pair & 0xFFFFFFFF, pair >> 32)]
    fields = {
        "extents": words[1 : 1 + rank],
        "strides in bytes": words[6 : 5 + rank],
        "box": boxes[:rank],
    }
    listed = ", ".join(f"{field} {tuple(values)}" for field, values in fields.items())
    return f"{name}: address {address:#x}, {listed}, innermost axis first, elements of {words[21]} bytes"


def _is_call(node: Any, name: str) -> bool:
    return isinstance(node, ir.Call) and isinstance(node.op, ir.Op) and str(node.op.name) == name


def _words(call: ir.Call) -> list[ir.Expr]:
    attrs, rank = call.attrs, int(call.attrs["rank"])
    pointer, *sizes = call.args
    one = _int64(1)
    extents = [E.Max(extent, one) for extent in sizes[:rank]]
    dtype = str(attrs["dtype"])
    itemsize = _itemsize(dtype)
    known = TYPES.get(dtype, TYPES.get(f"uint{8 * itemsize}"))
    numbers = (
        known,
        rank,
        SWIZZLES[int(attrs["swizzle"])],
        _PROMOTIONS[int(attrs["promotion"])],
        0,
        itemsize,
    )
    return [
        _address(pointer),
        *_filled(extents, MOST_AXES),
        *_filled(sizes[rank:], MOST_AXES - 1),
        *_pairs([int(edge) for edge in attrs["box"]]),
        *_pairs([1] * rank),
        *map(_int64, numbers),
    ]


def _address(pointer: ir.Expr) -> ir.Expr:
    """`address_of(buffer[indices])` of host code, or a buffer's own data pointer, as a number of bytes."""
    (load,) = pointer.args
    if not isinstance(load, ir.TensorLoad):
        return address_of_data(load)
    buffer = load.source
    element, running = _int64(0), _int64(1)
    strides = [_int64(stride) for stride in buffer.ty.strides]
    for axis, index in reversed(list(enumerate(load.indices))):
        element = element + _int64(index) * (strides[axis] if strides else running)
        running = running * _int64(buffer.shape[axis])
    return address_of_data(buffer) + element * _int64(_itemsize(str(buffer.dtype)))


def _filled(values: Sequence[ir.Expr], count: int) -> list[ir.Expr]:
    return [*values, *[_int64(0)] * (count - len(values))]


def _pairs(values: list[int]) -> list[ir.Expr]:
    filled = [*values, *[0] * (2 * 3 - len(values))]
    return [_int64(low | high << 32) for low, high in zip(filled[::2], filled[1::2], strict=True)]


def _fits(call: ir.Call) -> ir.Expr:
    pointer, *strides = call.args
    whole = _address(pointer)
    for stride in strides:
        whole = tirx.bitwise_or(whole, stride)
    return E.EQ(tirx.bitwise_and(whole, _int64(ALIGNMENT - 1)), _int64(0))


def _int64(value: ir.Expr | int) -> ir.Expr:
    if isinstance(value, int):
        return E.IntImm("int64", value)
    return value if str(value.ty.dtype) == "int64" else tirx.Cast("int64", value)


def _itemsize(dtype: str) -> int:
    bits = int(DType(dtype).carrier.bits)
    if bits % 8:
        raise ValueError(f"elements of {dtype} are smaller than a byte")
    return bits // 8


DESCRIPTOR_WORDS = ("const __grid_constant__ TileTensorMap {name}", "TileTensorMap")
"""How a kernel's parameter is declared, and the snippet of its type."""
SNIPPETS = {
    "TileTensorMap": Snippet(
        """
struct alignas(64) TileTensorMap {
  unsigned long long words[16];
};
""",
        emulated="",
    )
}
