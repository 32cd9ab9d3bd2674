"""From what an author writes to the operands of a dialect's instructions: addresses, registers, numbers.

Registers of an instruction are arrays of `T.alloc_local`, which each thread has for itself. Which element of a matrix
is in which of them is the author's business.
"""

from __future__ import annotations

from math import prod
from typing import Any

from tvm import ir, tirx
from tvm.tirx import stmt as S

from tile_core.errors.ops import OpArgumentError, OpDTypeError
from tile_core.frontend import arith
from tile_core.frontend.builder import current_builder
from tile_core.frontend.values import Buffer, Element, Region, Value, VarCell, unwrap
from tile_core.ir import regions
from tile_core.language._scalars import common
from tile_core.ops.threads import INSTRUCTION
from tile_core.passes.insert_barriers import ACCESS


def issue(call: ir.Call, access: str = "rw") -> None:
    """Append an instruction of every thread; `access` is what it does to shared memory behind its addresses."""
    builder = current_builder()
    attrs = {} if call.attrs is None else {key: call.attrs[key] for key in call.attrs.keys()}
    attrs |= {ACCESS: access, INSTRUCTION: 1}
    builder.emit(S.Evaluate(ir.Call(call.op, call.args, attrs=attrs, ret_ty=call.ty, span=builder.span), builder.span))


def number(value: Any, what: str) -> ir.Expr:
    """An int, or an integer expression, as int32."""
    (operand,) = common(value)
    dtype = arith.dtype_of(operand)
    if not (dtype.is_integer or dtype.is_bool) or dtype.lanes != 1:
        raise OpDTypeError(f"{what} of {dtype}", remedy="give an int, or an integer expression")
    return operand if dtype.name == "int32" else tirx.Cast("int32", operand)


def place(value: Any, what: str, scopes: tuple[str, ...], offset: Any = 0) -> tuple[Buffer, list[ir.Expr]]:
    """The buffer and the index `offset` elements behind an operand.

    An operand is a buffer, an element, a region, an address such as `T.access_ptr` gives, or `buffer.data`.

    Raises:
        OpArgumentError: no such operand, or memory of another scope.
    """
    buffer, index = _start(value, what)
    if buffer.scope not in scopes:
        remedy = {regions.LOCAL: "an array of T.alloc_local", regions.SHARED[0]: "a shared tile"}.get(
            scopes[0], scopes[0]
        )
        raise OpArgumentError(f"{what}: {buffer.name} is {buffer.scope} memory", remedy=f"give {remedy}")
    if isinstance(offset, int) and offset == 0:
        return buffer, index
    return buffer, _moved(buffer, index, number(offset, f"{what}: the offset"), what)


def _start(value: Any, what: str) -> tuple[Buffer, list[ir.Expr]]:
    if isinstance(value, VarCell):
        return value.buffer, [unwrap(0)]
    if isinstance(value, Element):
        return value.buffer, [unwrap(index) for index in value.indices]
    if isinstance(value, Region):
        return value.buffer, [unwrap(start) for start in value.starts]
    if isinstance(value, Buffer):
        return value, [unwrap(0)] * value.ndim
    expr = unwrap(value) if isinstance(value, Value) else value
    if isinstance(expr, ir.Call) and isinstance(expr.op, ir.Op):
        if str(expr.op.name) == "tirx.address_of" and isinstance(expr.args[0], ir.TensorLoad):
            load = expr.args[0]
            return Buffer(load.source), list(load.indices)
        if str(expr.op.name) == "tirx.buffer_data":
            buffer = Buffer(expr.args[0])
            return buffer, [unwrap(0)] * buffer.ndim
    raise OpArgumentError(
        f"{what}: {value!r} is no place in memory", remedy="give a buffer, an element of one, or T.access_ptr of it"
    )


def _moved(buffer: Buffer, index: list[ir.Expr], offset: ir.Expr, what: str) -> list[ir.Expr]:
    """The index `offset` elements further in row-major order."""
    if buffer.ndim == 1:
        return [index[0] + offset]
    extents = [extent for extent in buffer.shape if isinstance(extent, int)]
    if len(extents) < buffer.ndim:
        raise OpArgumentError(
            f"{what}: an offset into {buffer.name} of shape {buffer.shape}", remedy="name the element"
        )
    flat: ir.Expr = offset
    for axis, each in enumerate(index):
        flat = flat + each * prod(extents[axis + 1 :])
    found = []
    for axis, extent in enumerate(extents):
        step = tirx.floordiv(flat, unwrap(prod(extents[axis + 1 :])))
        found.append(step if axis == 0 else tirx.floormod(step, unwrap(extent)))
    return found


def registers(value: Any, what: str, bits: int, offset: Any = 0) -> ir.Expr:
    """The address of registers of this thread, of which an instruction takes `bits`.

    Raises:
        OpArgumentError: no array of `T.alloc_local`, or fewer elements than that.
    """
    buffer, index = place(value, what, (regions.LOCAL, regions.VAR), offset)
    elements = -(-bits // buffer.dtype.bits)
    extents = [extent for extent in buffer.shape if isinstance(extent, int)]
    starts = [regions.constant(each) for each in index]
    known = [0 if start is None else start for start in starts]
    first = sum(start * prod(extents[axis + 1 :]) for axis, start in enumerate(known))
    if len(extents) == buffer.ndim and first + elements > prod(extents):
        raise OpArgumentError(
            f"{what}: {elements} elements of {buffer.name} from {first} on, of {prod(extents)}",
            remedy="allocate as many as the instruction takes, or begin earlier",
        )
    return tirx.address_of(tirx.BufferLoad(buffer.ir, index))


def shared_address(value: Any, what: str, offset: Any = 0) -> ir.Expr:
    """The address of an element of a shared tile. Raises OpArgumentError."""
    buffer, index = place(value, what, regions.SHARED, offset)
    return tirx.address_of(tirx.BufferLoad(buffer.ir, index))
