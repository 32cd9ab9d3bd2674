"""The host entry of a kernel: a packed function that checks every argument in machine code, then runs the body.

It replaces TVM's `MakePackedAPI`, which takes any object for a tensor, cuts extents and scalars down to 32 bits before
it compares them, compares declared strides of dimensions of size 1, and refuses `None` for a tensor that nothing
touches. Here every argument is exactly what the body assumes, or the call ends with `ArgumentRefused` before anything
runs.

The checks carry no messages: `arguments.check` repeats them in Python and explains, and only when a call was refused.
So the checks stay small and quick (about 10 ns a tensor), and the explanations can be as good as they like.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import tvm_ffi
from tvm import ir, tirx
from tvm.tirx import stmt as S

from tile_core.dtypes import DType
from tile_core.errors.interpreter import DeviceAssertError
from tile_core.ir import visit
from tile_core.ir.asserts import KERNEL_ASSERTION
from tile_core.jit.host_exprs import (
    BOOL_CODE,
    bfloat16_bits,
    cast,
    cast64,
    choose,
    every,
    false,
    fits,
    handle_type,
    i32,
    i64,
    int64_pointer,
    is_float,
    narrow_float,
    some,
    true,
)
from tile_core.jit.signature import is_pointer, is_scalar, is_tensor, read_signature

PREFIX = "__tvm_ffi_"
REFUSED = "TileArgumentRefused"
DEVICE_HOST = 1

_C_PACKED = 1
_ALIGNMENT_CHECK_LIMIT = 64

# `tvm::tirx::builtin::TVMStructFieldKind`
_DATA, _SHAPE, _STRIDES, _NDIM, _CODE, _BITS, _LANES, _OFFSET, _DEVICE_ID, _DEVICE_TYPE = range(1, 11)
_ANY_TYPE, _ANY_VALUE, _INT64_ELEMENT = 13, 15, 17

# `TVMFFITypeIndex`
_NONE, _INT, _BOOL, _FLOAT, _POINTER, _DLTENSOR, _TENSOR = 0, 1, 2, 3, 4, 7, 70
_TENSOR_CELL = 24
"""Bytes from a tensor object to its `DLTensor`: the size of `TVMFFIObject`."""


class ArgumentRefused(ValueError):  # noqa: N818 - never seen by a user: it becomes an ArgumentError
    """The packed function refused an argument."""


tvm_ffi.register_error(REFUSED, ArgumentRefused)
tvm_ffi.register_error(KERNEL_ASSERTION, DeviceAssertError)


def packed_entry(func: Any, *, device_type: int = DEVICE_HOST, device_id: Any = None) -> Any:
    """The packed function of a lowered function: a drop-in for TVM's `MakePackedAPI`.

    Args:
        func: a `tirx.PrimFunc` over buffers, scalars and pointers, lowered as far as `MakePackedAPI` wants it.
        device_type: the DLPack device type on which tensors must be; 1 is the host.
        device_id: an int32 variable of the body that gets the number of the tensors' device, -1 where there are none.

    Returns:
        A `tirx.PrimFunc` with the calling convention of packed functions and the symbol `__tvm_ffi_<name>`; returns 0.

    Raises:
        UnsolvableExtentError, UnsupportedParameterError: as `read_signature`.
    """
    return _Entry(func, device_type, device_id).build()


class _Entry:
    """Builds one entry. Statements are appended in an order in which each only uses what was checked before it."""

    def __init__(self, func: Any, device_type: int, device_id_var: Any) -> None:
        self.func = func
        self.device_id_var = device_id_var
        self.signature = read_signature(func)
        self.device_type = device_type
        self.stmts: list[Any] = []
        self.bound: set[Any] = set()
        self.replaced: dict[Any, Any] = {}
        self.device_id: Any = None
        self.args = tirx.Var("args", "handle")
        self.count = tirx.Var("num_args", "int32")

    def build(self) -> Any:
        params = list(zip(self.func.params, self.signature.params, strict=True))
        self.require([tirx.EQ(self.count, i32(len(params)))])
        tensors = []
        for position, (var, param) in enumerate(params):
            if is_tensor(var):
                tensors.append(_Tensor(self, position, var, param))
            elif is_scalar(var):
                self.scalar(position, var)
            else:
                assert is_pointer(var)
                self.pointer(position, var)
        required = [tensor for tensor in tensors if not tensor.param.optional]
        for tensor in required:
            tensor.open()
        for tensor in required:
            tensor.compare()
        for tensor in tensors:
            if tensor.param.optional:
                self.stmts.append(tensor.where_given())
        return self.function(required)

    def function(self, required: Sequence[_Tensor]) -> Any:
        views = [S.DeclBuffer(tensor.var, data=tensor.pointer()) for tensor in required]
        name = self.signature.name
        body = S.AttrStmt(i32(0), "compute_scope", ir.StringImm(f"{name}_compute_"), self.body())
        run: Any = S.SeqStmt([*views, body]) if views else body
        default = ir.StringImm("default")
        run = S.AttrStmt(default, "device_type", i32(self.device_type), run)
        run = S.AttrStmt(default, "device_id", i32(0) if self.device_id is None else self.device_id, run)
        if self.device_id_var is not None:
            self.define(self.device_id_var, i32(-1) if self.device_id is None else self.device_id)
        whole = S.SeqStmt([*self.stmts, run, S.Return(i32(0))])
        handle = tirx.Var("self_handle", "handle")
        result = tirx.Var("result", "handle")
        entry = tirx.PrimFunc([handle, self.args, self.count, result], whole, ir.PrimType("int32"), self.func.attrs)
        return entry.with_attr({"calling_conv": _C_PACKED, "global_symbol": PREFIX + name})

    def body(self) -> Any:
        """The function's body over the names that the entry defines."""
        if not self.replaced:
            return self.func.body
        return visit.mutate(self.func.body, (ir.Var, lambda var, mutator: self.replaced.get(var, var)))

    def require(self, conditions: Iterable[Any]) -> None:
        """End the call unless all conditions hold. All are evaluated: none may depend on another of the same call."""
        conditions = list(conditions)
        if conditions:
            self.stmts.append(S.AssertStmt(every(conditions), ir.StringImm(REFUSED), [ir.StringImm("argument")]))

    def bind(self, name: str, value: Any) -> Any:
        """A name for a value that later checks use."""
        var = tirx.Var(name, value.ty)
        self.stmts.append(S.Bind(var, value))
        return var

    def define(self, var: Any, value: Any) -> None:
        """Give a variable of the program its value."""
        self.bound.add(var)
        self.stmts.append(S.Bind(var, value))

    def type_index(self, position: int) -> Any:
        return self.bind(f"type_{position}", tirx.tvm_struct_get(self.args, position, _ANY_TYPE, "int32"))

    def scalar(self, position: int, var: Any) -> None:
        dtype = tvm_ffi.dtype(str(var.ty.dtype))
        kind = self.type_index(position)
        whole = tirx.Or(tirx.EQ(kind, i32(_INT)), tirx.EQ(kind, i32(_BOOL)))
        integer = tirx.tvm_struct_get(self.args, position, _ANY_VALUE, "int64")
        if is_float(dtype):
            self.require([tirx.Or(tirx.EQ(kind, i32(_FLOAT)), whole)])
            real = tirx.tvm_struct_get(self.args, position, _ANY_VALUE, "float64")
            given = tirx.if_then_else(tirx.EQ(kind, i32(_FLOAT)), real, tirx.Cast("float64", integer))
            self.define_float(var, given)
            return
        self.require([whole])
        value = self.bind(f"value_{position}", integer)
        self.require(fits(value, dtype))
        self.define(var, tirx.NE(value, i64(0)) if dtype.type_code == BOOL_CODE else cast(var.ty, value))

    def define_float(self, var: Any, value: Any) -> None:
        """Give a float parameter its value; a bfloat16 one is kept as bits, as TVM's legaliser wants no such name."""
        dtype = str(var.ty.dtype)
        if dtype != "bfloat16":
            self.define(var, narrow_float(dtype, value))
            return
        bits = self.bind(f"{var.name}_bits", bfloat16_bits(tirx.Cast("float32", value)))
        self.bound.add(var)
        self.replaced[var] = tirx.reinterpret("bfloat16", bits)

    def pointer(self, position: int, var: Any) -> None:
        kind = self.type_index(position)
        self.require([some([tirx.EQ(kind, i32(index)) for index in (_NONE, _INT, _POINTER, _DLTENSOR, _TENSOR)])])
        value = tirx.tvm_struct_get(self.args, position, _ANY_VALUE, handle_type())
        tensor = tirx.Or(tirx.EQ(kind, i32(_DLTENSOR)), tirx.EQ(kind, i32(_TENSOR)))
        dltensor = choose(tirx.EQ(kind, i32(_TENSOR)), tirx.handle_add_byte_offset(value, _TENSOR_CELL), value)
        data = tirx.tvm_struct_get(dltensor, 0, _DATA, handle_type())
        address = choose(tensor, data, value)
        self.define(var, tirx.reinterpret(var.ty, address))


class _Tensor:
    """The checks of one tensor argument: first `open`, which makes everything readable, then `compare`."""

    def __init__(self, entry: _Entry, position: int, var: Any, param: Any) -> None:
        self.entry = entry
        self.position = position
        self.var = var
        self.param = param
        self.rank = len(var.ty.shape)
        kind = entry.type_index(position)
        tensor = [tirx.EQ(kind, i32(_TENSOR)), tirx.EQ(kind, i32(_DLTENSOR))]
        entry.require([some([*tensor, tirx.EQ(kind, i32(_NONE))] if param.optional else tensor)])
        value = tirx.tvm_struct_get(entry.args, position, _ANY_VALUE, handle_type())
        cell = tirx.handle_add_byte_offset(value, _TENSOR_CELL)
        self.handle = entry.bind(f"{param.name}_handle", choose(tensor[0], cell, value))
        self.kind = kind

    def field(self, field: int, dtype: Any) -> Any:
        return tirx.tvm_struct_get(self.handle, 0, field, dtype)

    def pointer(self) -> Any:
        """The address of the data, typed as the buffer wants it."""
        element = ir.PrimType(str(self.var.ty.dtype))
        return tirx.reinterpret(ir.PointerType(element, "global"), self.field(_DATA, handle_type()))

    def where_given(self) -> Any:
        """All checks of a tensor that may be `None`. What they bind is used by nothing else."""
        outer, self.entry.stmts = self.entry.stmts, []
        self.open()
        self.compare()
        inner, self.entry.stmts = self.entry.stmts, outer
        return S.IfThenElse(tirx.NE(self.kind, i32(_NONE)), S.SeqStmt(inner), None)

    def open(self) -> None:
        """Check rank, dtype and device, read the extents, and bind the symbols that stand here first."""
        entry = self.entry
        dtype = DType(str(self.var.ty.dtype)).carrier
        bits, lanes = tirx.Cast("int32", self.field(_BITS, "uint8")), tirx.Cast("int32", self.field(_LANES, "uint16"))
        checks = [
            tirx.EQ(self.field(_NDIM, "int32"), i32(self.rank)),
            tirx.EQ(self.field(_DEVICE_TYPE, "int32"), i32(entry.device_type)),
            tirx.EQ(self.field(_OFFSET, "uint64"), tirx.IntImm("uint64", 0)),
        ]
        if self.param.per_storage > 1:
            checks.append(tirx.EQ(bits * lanes, i32(8)))
        else:
            code = tirx.Cast("int32", self.field(_CODE, "uint8"))
            wanted = ((code, dtype.type_code), (bits, dtype.bits), (lanes, dtype.lanes))
            checks += [tirx.EQ(got, i32(want)) for got, want in wanted]
        entry.require(checks)
        self.check_device_id()
        self.read_extents()
        self.read_strides()

    def check_device_id(self) -> None:
        entry = self.entry
        given = self.field(_DEVICE_ID, "int32")
        if entry.device_id is None and not self.param.optional:
            entry.device_id = entry.bind("device_id", given)
        elif entry.device_id is not None:
            entry.require([tirx.EQ(given, entry.device_id)])

    def read_extents(self) -> None:
        entry, name = self.entry, self.param.name
        source = entry.bind(f"{name}_shape", self.field(_SHAPE, int64_pointer()))
        self.extents = []
        for axis in range(self.rank):
            value = tirx.tvm_struct_get(source, axis, _INT64_ELEMENT, "int64")
            if axis == self.rank - 1 and self.param.per_storage > 1:
                value = value * i64(self.param.per_storage)
            self.extents.append(entry.bind(f"{name}_extent_{axis}", value))
        for declared, given in zip(self.var.ty.shape, self.extents, strict=True):
            self.solve(declared, given, false())
        size: Any = i64(1)
        for given in self.extents:
            size = size * given
        self.size = entry.bind(f"{name}_size", size)

    def read_strides(self) -> None:
        entry, name = self.entry, self.param.name
        self.stride_source = entry.bind(f"{name}_strides", self.field(_STRIDES, int64_pointer()))
        self.strides: list[Any] = []
        if not len(self.var.ty.strides):
            return
        for axis, compact in enumerate(self.compact_strides()):
            given = tirx.tvm_struct_get(self.stride_source, axis, _INT64_ELEMENT, "int64")
            if axis < self.rank - 1 and self.param.per_storage > 1:
                given = given * i64(self.param.per_storage)
            stride = tirx.if_then_else(tirx.isnullptr(self.stride_source), compact, given)
            self.strides.append(entry.bind(f"{name}_stride_{axis}", stride))
        for axis, declared in enumerate(self.var.ty.strides):
            self.solve(declared, self.strides[axis], self.ignored(axis))

    def compact_strides(self) -> list[Any]:
        """The strides of a contiguous tensor with these extents."""
        strides: list[Any] = []
        running: Any = i64(1)
        for extent in reversed(self.extents):
            strides.append(running)
            running = running * extent
        return strides[::-1]

    def ignored(self, axis: int) -> Any:
        """Where the stride of this axis addresses nothing: one index only, or no element at all."""
        return tirx.Or(tirx.EQ(self.extents[axis], i64(1)), tirx.EQ(self.size, i64(0)))

    def solve(self, declared: Any, given: Any, ignored: Any) -> None:
        """Bind a symbol where it stands alone for the first time."""
        if not isinstance(declared, ir.Var) or declared in self.entry.bound:
            return
        limit = tirx.IntImm("int64", int(tirx.max_value(str(declared.ty.dtype)).value))
        in_range = tirx.And(tirx.GE(given, i64(0)), tirx.LE(given, limit))
        self.entry.require([tirx.Or(ignored, in_range)])
        self.entry.define(declared, cast(declared.ty, given))

    def compare(self) -> None:
        """Compare extents and strides with the declared ones, and check the address."""
        pairs = zip(self.extents, self.var.ty.shape, strict=True)
        checks = [tirx.EQ(given, cast64(declared)) for given, declared in pairs]
        checks += [
            tirx.Or(self.ignored(axis), tirx.EQ(given, cast64(declared)))
            for axis, (given, declared) in enumerate(zip(self.strides, self.var.ty.strides, strict=False))
        ]
        if not self.strides and self.rank:
            checks.append(self.contiguous())
        address = self.field(_INT64_ELEMENT, "int64")  # the pointer, which is the first field, as a number
        empty = tirx.EQ(self.size, i64(0))
        checks.append(tirx.Or(empty, tirx.And(tirx.NE(address, i64(0)), self.aligned(address))))
        self.entry.require(checks)

    def contiguous(self) -> Any:
        conditions = []
        for axis, compact in enumerate(self.compact_strides()):
            given = tirx.tvm_struct_get(self.stride_source, axis, _INT64_ELEMENT, "int64")
            if axis < self.rank - 1 and self.param.per_storage > 1:
                given = given * i64(self.param.per_storage)
            conditions.append(tirx.Or(tirx.EQ(self.extents[axis], i64(1)), tirx.EQ(given, compact)))
        strided = tirx.Or(tirx.EQ(self.size, i64(0)), every(conditions))
        return tirx.if_then_else(tirx.isnullptr(self.stride_source), tirx.IntImm("bool", 1), strided)

    def aligned(self, address: Any) -> Any:
        element = tvm_ffi.dtype(str(self.var.ty.dtype))
        size = min(max(element.bits * element.lanes // 8, 1), _ALIGNMENT_CHECK_LIMIT)
        return tirx.EQ(tirx.bitwise_and(address, i64(size - 1)), i64(0)) if size & (size - 1) == 0 else true()
