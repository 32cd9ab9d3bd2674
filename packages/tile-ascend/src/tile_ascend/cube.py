"""What the Cube unit is told: its engines and the unit itself, one instruction at a time.

A tile in L1 is in columns of 32 bytes, each of all rows one after another (NZ). In L0A and L0B fractals of 16 rows by
32 bytes lie column by column; an operand whose other axis is its rows is transposed fractal by fractal on its way
there. In L0C the columns are 16 numbers wide. (CANN, C API for architecture 3510: `asc_set_gm2l1_nz_para`,
`asc_copy_gm2l1_nd2nz`, `asc_copy_l12l0a`, `asc_copy_l12l0b_transpose`, `asc_mmad`, `asc_copy_l0c2gm`.)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tvm import ir
from tvm.tirx import stmt as S

from tile_ascend.passes.use_cube import BEGIN, COLUMN_BYTES, LOAD, PRODUCT, ROWS, STORE
from tile_ascend.steps import Access, Instruction
from tile_core.dtypes import as_dtype
from tile_core.ir import visit
from tile_core.ops.threads import called

MEMORIES = ("l1", "l0a", "l0b", "l0c")
MTE1, MTE2, M, FIX = "MTE1", "MTE2", "M", "FIX"
TYPES: Mapping[str, str] = {"float16": "half", "bfloat16": "bfloat16_t", "int8": "int8_t"}
_ACCUMULATORS = {"float16": "float", "bfloat16": "float", "int8": "int32_t"}
_CONVERSIONS = {"float32": "NoQuant", "float16": "F322F16", "int32": "NoQuant"}
CUBE_CALLS = (LOAD, PRODUCT, STORE, BEGIN)


def is_for_cube(body: S.Stmt) -> bool:
    """Whether the body of a launch is a program of the Cube unit."""
    return any(called(call) in CUBE_CALLS for call in visit.collect(body, ir.Call))


def fresh(offset: int) -> str:
    """The name of the variable that says whether an accumulator begins anew."""
    return f"begins_{offset}"


def instructions(call: ir.Call, span: Any) -> list[Instruction]:
    """The instructions of one step of a program for the unit."""
    return _STEPS[str(call.op.name)](call, {str(key): call.attrs[key] for key in call.attrs.keys()}, span)


def _buffer(memory: str, type_name: str, offset: int) -> str:
    space = {"l1": "__cbuf__", "l0a": "__ca__", "l0b": "__cb__", "l0c": "__cc__"}[memory]
    return f"reinterpret_cast<{space} {type_name}*>(tile_{memory} + {offset})"


def _load(call: ir.Call, attrs: Mapping[str, Any], span: Any) -> list[Instruction]:
    dtype, rows, columns = str(attrs["dtype"]), int(attrs["rows"]), int(attrs["columns"])
    itemsize = as_dtype(dtype).itemsize
    offset, (address,) = int(attrs["offset"]), call.args
    touched = frozenset(
        {Access(("l1", offset, offset + rows * columns * itemsize), True), Access(address.args[0].source, False)}
    )
    target = _buffer("l1", TYPES[dtype], offset)
    text = f"asc_copy_gm2l1_nd2nz({target}, {{}}, {int(attrs['stride']) * itemsize}, 0, {rows}, {columns}, 0, false)"
    return [Instruction(MTE2, touched, (f"asc_set_gm2l1_nz_para(1, 1, {rows}, 0)", text), address, span)]


def _product(_call: ir.Call, attrs: Mapping[str, Any], span: Any) -> list[Instruction]:
    dtype, m, n, k, step = str(attrs["dtype"]), *(int(attrs[key]) for key in ("m", "n", "k", "step"))
    itemsize = as_dtype(dtype).itemsize
    offset = int(attrs["c"])
    accumulator = _buffer("l0c", _ACCUMULATORS[dtype], offset)
    results = ("l0c", offset, offset + m * n * 4)
    made: list[Instruction] = []
    for start in range(0, k, step):
        for side, extent, rows in (("a", m, not attrs["transpose_a"]), ("b", n, bool(attrs["transpose_b"]))):
            made.append(_operand(side, int(attrs[side]), dtype, extent, k, start, step, rows=rows, span=span))
        zero = ("true" if attrs["clear"] else fresh(offset)) if start == 0 else "false"
        operands = ", ".join(_buffer(f"l0{side}", TYPES[dtype], 0) for side in "ab")
        lines = [f"asc_mmad({accumulator}, {operands}, {m}, {step}, {n}, 0, false, false, {zero})"]
        lines += [f"{fresh(offset)} = false"] if start == 0 else []
        touched = {Access((f"l0{side}", 0, extent * step * itemsize), False) for side, extent in (("a", m), ("b", n))}
        made.append(
            Instruction(M, frozenset({*touched, Access(results, True)}), tuple(lines), None, span, (fresh(offset),))
        )
    return made


def _operand(
    side: str, offset: int, dtype: str, extent: int, k: int, start: int, step: int, *, rows: bool, span: Any
) -> Instruction:
    """Brings `step` of K of an operand to L0; with `rows` its rows are those of the result, else those are K."""
    itemsize = as_dtype(dtype).itemsize
    source, target = _buffer("l1", TYPES[dtype], offset), _buffer(f"l0{side}", TYPES[dtype], 0)
    column = COLUMN_BYTES // itemsize
    if rows:
        name = f"asc_copy_l12l0{side}"
        shape = (0, start // column, extent // ROWS, step // column, extent // ROWS, extent // ROWS)
    else:
        name = f"asc_copy_l12l0{side}_transpose"
        shape = (start // ROWS, 0, step // ROWS, extent // column, k // ROWS, extent // ROWS)
    text = f"{name}({target}, {source}, {', '.join(map(str, shape))})"
    size = extent * itemsize
    touched = {
        Access(("l1", offset, offset + size * k), False),
        Access((f"l0{side}", 0, size * step), True),
    }
    return Instruction(MTE1, frozenset(touched), (text,), None, span)


def _store(call: ir.Call, attrs: Mapping[str, Any], span: Any) -> list[Instruction]:
    rows, columns, offset = (int(attrs[key]) for key in ("rows", "columns", "offset"))
    (address,) = call.args
    tensor = address.args[0].source
    source = _buffer("l0c", "int32_t" if str(attrs["dtype"]) == "int32" else "float", offset)
    conversion = f"static_cast<uint64_t>(QuantMode_t::{_CONVERSIONS[str(tensor.dtype)]})"
    rest = "static_cast<uint64_t>(QuantMode_post::NoConv), 0, false, 0, false, false, false, false"
    shape = f"{columns}, {rows}, {int(attrs['stride'])}, {rows}"
    text = f"asc_copy_l0c2gm({{}}, {source}, {shape}, 0, 0, 0, {conversion}, 0, false, true, {rest})"
    touched = {Access(("l0c", offset, offset + rows * columns * 4), False), Access(tensor, True)}
    return [Instruction(FIX, frozenset(touched), ("asc_set_l0c_copy_nz_para(1, 0, 0)", text), address, span)]


def _begin(_call: ir.Call, attrs: Mapping[str, Any], span: Any) -> list[Instruction]:
    name = fresh(int(attrs["offset"]))
    return [Instruction("S", frozenset(), (f"{name} = true",), None, span, (name,))]


_STEPS: Mapping[str, Callable[[ir.Call, Mapping[str, Any], Any], list[Instruction]]] = {
    LOAD: _load,
    PRODUCT: _product,
    STORE: _store,
    BEGIN: _begin,
}
