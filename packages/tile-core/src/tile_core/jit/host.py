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

from tile_core.errors.runtime import UnsupportedParameterError
from tile_core.ir import visit
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


def packed_entry(func: Any, *, device_type: int = DEVICE_HOST) -> Any:
    """The packed function of a lowered function: a drop-in for TVM's `MakePackedAPI`.

    Args:
        func: a `tirx.PrimFunc` over buffers, scalars and pointers, lowered as far as `MakePackedAPI` wants it.
        device_type: the DLPack device type on which tensors must be; 1 is the host.

    Returns:
        A `tirx.PrimFunc` with the calling convention of packed functions and the symbol `__tvm_ffi_<name>`; returns 0.

    Raises:
        UnsolvableExtentError, UnsupportedParameterError: as `read_signature`.
    """
    return _Entry(func, device_type).build()


class _Entry:
    """Builds one entry. Statements are appended in an order in which each only uses what was checked before it."""

    def __init__(self, func: Any, device_type: int) -> None:
        self.func = func
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
        self.require([tirx.EQ(self.count, _i32(len(params)))])
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
        body = S.AttrStmt(_i32(0), "compute_scope", ir.StringImm(f"{name}_compute_"), self.body())
        run: Any = S.SeqStmt([*views, body]) if views else body
        default = ir.StringImm("default")
        run = S.AttrStmt(default, "device_type", _i32(self.device_type), run)
        run = S.AttrStmt(default, "device_id", _i32(0) if self.device_id is None else self.device_id, run)
        whole = S.SeqStmt([*self.stmts, run, S.Return(_i32(0))])
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
            self.stmts.append(S.AssertStmt(_all(conditions), ir.StringImm(REFUSED), [ir.StringImm("argument")]))

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
        whole = tirx.Or(tirx.EQ(kind, _i32(_INT)), tirx.EQ(kind, _i32(_BOOL)))
        integer = tirx.tvm_struct_get(self.args, position, _ANY_VALUE, "int64")
        if _is_float(dtype):
            self.require([tirx.Or(tirx.EQ(kind, _i32(_FLOAT)), whole)])
            real = tirx.tvm_struct_get(self.args, position, _ANY_VALUE, "float64")
            given = tirx.if_then_else(tirx.EQ(kind, _i32(_FLOAT)), real, tirx.Cast("float64", integer))
            self.define_float(var, given)
            return
        self.require([whole])
        value = self.bind(f"value_{position}", integer)
        self.require(_fits(value, dtype))
        self.define(var, tirx.NE(value, _i64(0)) if dtype.type_code == _BOOL_CODE else _cast(var.ty, value))

    def define_float(self, var: Any, value: Any) -> None:
        """Give a float parameter its value; a bfloat16 one is kept as bits, as TVM's legaliser wants no such name."""
        dtype = str(var.ty.dtype)
        if dtype != "bfloat16":
            self.define(var, _narrow_float(dtype, value))
            return
        bits = self.bind(f"{var.name}_bits", _bfloat16_bits(tirx.Cast("float32", value)))
        self.bound.add(var)
        self.replaced[var] = tirx.reinterpret("bfloat16", bits)

    def pointer(self, position: int, var: Any) -> None:
        kind = self.type_index(position)
        self.require([_any([tirx.EQ(kind, _i32(index)) for index in (_NONE, _INT, _POINTER, _DLTENSOR, _TENSOR)])])
        value = tirx.tvm_struct_get(self.args, position, _ANY_VALUE, _handle())
        tensor = tirx.Or(tirx.EQ(kind, _i32(_DLTENSOR)), tirx.EQ(kind, _i32(_TENSOR)))
        dltensor = _choose(tirx.EQ(kind, _i32(_TENSOR)), tirx.handle_add_byte_offset(value, _TENSOR_CELL), value)
        data = tirx.tvm_struct_get(dltensor, 0, _DATA, _handle())
        address = _choose(tensor, data, value)
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
        tensor = [tirx.EQ(kind, _i32(_TENSOR)), tirx.EQ(kind, _i32(_DLTENSOR))]
        entry.require([_any([*tensor, tirx.EQ(kind, _i32(_NONE))] if param.optional else tensor)])
        value = tirx.tvm_struct_get(entry.args, position, _ANY_VALUE, _handle())
        cell = tirx.handle_add_byte_offset(value, _TENSOR_CELL)
        self.handle = entry.bind(f"{param.name}_handle", _choose(tensor[0], cell, value))
        self.kind = kind

    def field(self, field: int, dtype: Any) -> Any:
        return tirx.tvm_struct_get(self.handle, 0, field, dtype)

    def pointer(self) -> Any:
        """The address of the data, typed as the buffer wants it."""
        element = ir.PrimType(str(self.var.ty.dtype))
        return tirx.reinterpret(ir.PointerType(element, "global"), self.field(_DATA, _handle()))

    def where_given(self) -> Any:
        """All checks of a tensor that may be `None`. What they bind is used by nothing else."""
        outer, self.entry.stmts = self.entry.stmts, []
        self.open()
        self.compare()
        inner, self.entry.stmts = self.entry.stmts, outer
        return S.IfThenElse(tirx.NE(self.kind, _i32(_NONE)), S.SeqStmt(inner), None)

    def open(self) -> None:
        """Check rank, dtype and device, read the extents, and bind the symbols that stand here first."""
        entry = self.entry
        dtype = tvm_ffi.dtype(str(self.var.ty.dtype))
        bits, lanes = tirx.Cast("int32", self.field(_BITS, "uint8")), tirx.Cast("int32", self.field(_LANES, "uint16"))
        checks = [
            tirx.EQ(self.field(_NDIM, "int32"), _i32(self.rank)),
            tirx.EQ(self.field(_DEVICE_TYPE, "int32"), _i32(entry.device_type)),
            tirx.EQ(self.field(_OFFSET, "uint64"), tirx.IntImm("uint64", 0)),
        ]
        if self.param.per_storage > 1:
            checks.append(tirx.EQ(bits * lanes, _i32(8)))
        else:
            code = tirx.Cast("int32", self.field(_CODE, "uint8"))
            wanted = ((code, dtype.type_code), (bits, dtype.bits), (lanes, dtype.lanes))
            checks += [tirx.EQ(got, _i32(want)) for got, want in wanted]
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
        source = entry.bind(f"{name}_shape", self.field(_SHAPE, _pointer_to_int64()))
        self.extents = []
        for axis in range(self.rank):
            value = tirx.tvm_struct_get(source, axis, _INT64_ELEMENT, "int64")
            if axis == self.rank - 1 and self.param.per_storage > 1:
                value = value * _i64(self.param.per_storage)
            self.extents.append(entry.bind(f"{name}_extent_{axis}", value))
        for declared, given in zip(self.var.ty.shape, self.extents, strict=True):
            self.solve(declared, given, _no_condition())
        size: Any = _i64(1)
        for given in self.extents:
            size = size * given
        self.size = entry.bind(f"{name}_size", size)

    def read_strides(self) -> None:
        entry, name = self.entry, self.param.name
        self.stride_source = entry.bind(f"{name}_strides", self.field(_STRIDES, _pointer_to_int64()))
        self.strides: list[Any] = []
        if not len(self.var.ty.strides):
            return
        for axis, compact in enumerate(self.compact_strides()):
            given = tirx.tvm_struct_get(self.stride_source, axis, _INT64_ELEMENT, "int64")
            if axis < self.rank - 1 and self.param.per_storage > 1:
                given = given * _i64(self.param.per_storage)
            stride = tirx.if_then_else(tirx.isnullptr(self.stride_source), compact, given)
            self.strides.append(entry.bind(f"{name}_stride_{axis}", stride))
        for axis, declared in enumerate(self.var.ty.strides):
            self.solve(declared, self.strides[axis], self.ignored(axis))

    def compact_strides(self) -> list[Any]:
        """The strides of a contiguous tensor with these extents."""
        strides: list[Any] = []
        running: Any = _i64(1)
        for extent in reversed(self.extents):
            strides.append(running)
            running = running * extent
        return strides[::-1]

    def ignored(self, axis: int) -> Any:
        """Where the stride of this axis addresses nothing: one index only, or no element at all."""
        return tirx.Or(tirx.EQ(self.extents[axis], _i64(1)), tirx.EQ(self.size, _i64(0)))

    def solve(self, declared: Any, given: Any, ignored: Any) -> None:
        """Bind a symbol where it stands alone for the first time."""
        if not isinstance(declared, ir.Var) or declared in self.entry.bound:
            return
        limit = tirx.IntImm("int64", int(tirx.max_value(str(declared.ty.dtype)).value))
        in_range = tirx.And(tirx.GE(given, _i64(0)), tirx.LE(given, limit))
        self.entry.require([tirx.Or(ignored, in_range)])
        self.entry.define(declared, _cast(declared.ty, given))

    def compare(self) -> None:
        """Compare extents and strides with the declared ones, and check the address."""
        pairs = zip(self.extents, self.var.ty.shape, strict=True)
        checks = [tirx.EQ(given, _cast64(declared)) for given, declared in pairs]
        checks += [
            tirx.Or(self.ignored(axis), tirx.EQ(given, _cast64(declared)))
            for axis, (given, declared) in enumerate(zip(self.strides, self.var.ty.strides, strict=False))
        ]
        if not self.strides and self.rank:
            checks.append(self.contiguous())
        address = self.field(_INT64_ELEMENT, "int64")  # the pointer, which is the first field, as a number
        empty = tirx.EQ(self.size, _i64(0))
        checks.append(tirx.Or(empty, tirx.And(tirx.NE(address, _i64(0)), self.aligned(address))))
        self.entry.require(checks)

    def contiguous(self) -> Any:
        conditions = []
        for axis, compact in enumerate(self.compact_strides()):
            given = tirx.tvm_struct_get(self.stride_source, axis, _INT64_ELEMENT, "int64")
            if axis < self.rank - 1 and self.param.per_storage > 1:
                given = given * _i64(self.param.per_storage)
            conditions.append(tirx.Or(tirx.EQ(self.extents[axis], _i64(1)), tirx.EQ(given, compact)))
        strided = tirx.Or(tirx.EQ(self.size, _i64(0)), _all(conditions))
        return tirx.if_then_else(tirx.isnullptr(self.stride_source), tirx.IntImm("bool", 1), strided)

    def aligned(self, address: Any) -> Any:
        element = tvm_ffi.dtype(str(self.var.ty.dtype))
        size = min(max(element.bits * element.lanes // 8, 1), _ALIGNMENT_CHECK_LIMIT)
        return tirx.EQ(tirx.bitwise_and(address, _i64(size - 1)), _i64(0)) if size & (size - 1) == 0 else _yes()


_BOOL_CODE = 6
_INT_CODE, _UINT_CODE = 0, 1


def _is_float(dtype: Any) -> bool:
    return dtype.type_code not in (_INT_CODE, _UINT_CODE, _BOOL_CODE)


def _fits(value: Any, dtype: Any) -> list[Any]:
    """Whether an int64 lies in the range of an integer dtype. A uint64 above 2^63 - 1 cannot arrive as an int64."""
    if dtype.type_code == _BOOL_CODE:
        return []
    signed = dtype.type_code == _INT_CODE
    low = -(1 << (dtype.bits - 1)) if signed else 0
    high = (1 << (dtype.bits - signed)) - 1
    checks = [] if low == -(1 << 63) else [tirx.GE(value, _i64(low))]
    return checks if high >= (1 << 63) - 1 else [*checks, tirx.LE(value, _i64(high))]


_FLOATS = ("float64", "float32", "float16")


def _narrow_float(dtype: str, value: Any) -> Any:
    """A float64 as a parameter's dtype, rounded through float32 as torch does."""
    if dtype not in _FLOATS:
        raise UnsupportedParameterError(
            f"a scalar parameter of dtype {dtype} cannot be passed", remedy="pass a float32 and cast it in the kernel"
        )
    if dtype == "float64":
        return value
    single = tirx.Cast("float32", value)
    return single if dtype == "float32" else tirx.Cast(dtype, single)


def _bfloat16_bits(value: Any) -> Any:
    """Round to nearest even on the bits: the entry is made after TVM's pass that spells bfloat16 conversions out."""
    bits = tirx.reinterpret("uint32", value)
    high = tirx.shift_right(bits, _u32(16))
    rounded = tirx.shift_right(bits + tirx.bitwise_and(high, _u32(1)) + _u32(0x7FFF), _u32(16))
    quiet = tirx.bitwise_or(high, _u32(0x40))
    nan = tirx.GT(tirx.bitwise_and(bits, _u32(0x7FFFFFFF)), _u32(0x7F800000))
    return tirx.Cast("uint16", tirx.Select(nan, quiet, rounded))


def _cast(ty: Any, value: Any) -> Any:
    dtype = str(ty.dtype)
    return value if dtype == "int64" else tirx.Cast(dtype, value)


def _cast64(value: Any) -> Any:
    if isinstance(value, tirx.IntImm):
        return _i64(int(value))
    return value if str(value.ty.dtype) == "int64" else tirx.Cast("int64", value)


def _handle() -> Any:
    return tirx.Var("address", "handle").ty


def _choose(condition: Any, address: Any, other: Any) -> Any:
    """`if_then_else` on addresses, for which TVM has no builder."""
    return ir.Call(ir.Op.get("prim.if_then_else"), [condition, address, other], ret_ty=_handle())


def _pointer_to_int64() -> Any:
    return ir.PointerType(ir.PrimType("int64"), "global")


def _i32(value: int) -> Any:
    return tirx.IntImm("int32", value)


def _u32(value: int) -> Any:
    return tirx.IntImm("uint32", value)


def _i64(value: int) -> Any:
    return tirx.IntImm("int64", value)


def _yes() -> Any:
    return tirx.IntImm("bool", 1)


def _no_condition() -> Any:
    return tirx.IntImm("bool", 0)


def _all(conditions: Sequence[Any]) -> Any:
    whole = conditions[0]
    for condition in conditions[1:]:
        whole = tirx.And(whole, condition)
    return whole


def _any(conditions: Sequence[Any]) -> Any:
    whole = conditions[0]
    for condition in conditions[1:]:
        whole = tirx.Or(whole, condition)
    return whole
