"""Turn the intrinsics that tile ops leave into what LLVM can call.

Atomics become imported IR, printing a call back to Python. A block is one program, so barriers between its threads
order nothing and are dropped.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from tvm import ir, tirx
from tvm.ir.prim import expr as E
from tvm.tirx import stmt as S

from tile_core.errors.passes import DataTypeUnsupportedError, UnsupportedOnTargetError
from tile_core.ir import visit
from tile_core.ir.spans import from_tvm
from tile_core.ops.base import PREFIX
from tile_core.passes import rebuild
from tile_core.passes.base import PassContext
from tile_cpu.llvm import atomics
from tile_cpu.passes.map_grid import GRID

PRINT = "tile_cpu.print"
"""The global function that prints one line: message, name, value, indices."""


@dataclass(frozen=True)
class LowerIntrinsics:
    """See the module's docstring.

    Raises:
        DataTypeUnsupportedError: an atomic on a dtype that has none.
        UnsupportedOnTargetError: an intrinsic that means nothing without threads.
    """

    name: ClassVar[str] = "lower_intrinsics"

    def __call__(self, func: tirx.PrimFunc, context: PassContext) -> tirx.PrimFunc:
        """The function after this pass."""
        return visit.mutate(func, (S.For, _grid))


def _grid(loop: S.For, mutator: Any) -> S.Stmt:
    if GRID not in loop.annotations:
        return mutator.default_mutate(loop)
    lowerer = _Lowerer()
    body = visit.mutate(loop.body, (S.Evaluate, lowerer.evaluate), (ir.Call, lowerer.call))
    if lowerer.functions:
        text = ir.StringImm("".join(function.text for function in lowerer.functions.values()))
        body = S.AttrStmt(E.IntImm("int32", 0), "pragma_import_llvm", text, body)
    return rebuild.loop(loop, body=body)


class _Lowerer:
    """Lowers one launch and collects the IR that it needs."""

    def __init__(self) -> None:
        self.functions: dict[str, atomics.Function] = {}
        self._span: Any = None

    def evaluate(self, stmt: S.Evaluate, mutator: Any) -> S.Stmt:
        self._span = stmt.span or self._span
        return S.Evaluate(mutator.mutate(stmt.value), stmt.span)

    def call(self, call: ir.Call, mutator: Any) -> ir.Expr:
        name = str(call.op.name) if isinstance(call.op, ir.Op) else ""
        if not name.startswith(PREFIX):
            return mutator.default_mutate(call)
        handler = _HANDLERS.get(name)
        if handler is None:
            raise UnsupportedOnTargetError(
                f"{_shown(call)} is not available on the CPU",
                remedy=_REMEDIES.get(name, "write the work with T.Parallel and tile operations"),
                span=from_tvm(call.span or self._span),
            )
        return handler(self, call, [mutator.mutate(argument) for argument in call.args])

    def atomic_rmw(self, call: ir.Call, arguments: list[ir.Expr]) -> ir.Expr:
        address, operand = arguments
        dtype, bits = self._element(operand)
        function = atomics.rmw(str(call.attrs["kind"]), dtype, bits, int(call.attrs["memory_order"]))
        old = self._extern(function, f"uint{bits}", address, _reinterpret(f"uint{bits}", operand))
        return _reinterpret(dtype, old)

    def atomic_load(self, call: ir.Call, arguments: list[ir.Expr]) -> ir.Expr:
        dtype, bits = self._element(call)
        function = atomics.load(bits, int(call.attrs["memory_order"]))
        return _reinterpret(dtype, self._extern(function, f"uint{bits}", arguments[0]))

    def atomic_store(self, call: ir.Call, arguments: list[ir.Expr]) -> ir.Expr:
        address, value = arguments
        _, bits = self._element(value)
        function = atomics.store(bits, int(call.attrs["memory_order"]))
        return self._extern(function, "int32", address, _reinterpret(f"uint{bits}", value))

    def print_element(self, call: ir.Call, arguments: list[ir.Expr]) -> ir.Expr:
        message, name = (ir.StringImm(str(call.attrs[key])) for key in ("message", "name"))
        values = [_printable(argument) for argument in arguments]
        return tirx.call_packed(PRINT, message, name, *values)

    def _element(self, value: ir.Expr) -> tuple[str, int]:
        dtype = str(value.ty.dtype)
        if not atomics.supports(dtype):
            raise DataTypeUnsupportedError(
                f"there is no atomic operation on {dtype} elements on the CPU",
                remedy="accumulate in a wider dtype and convert afterwards",
                span=from_tvm(self._span),
            )
        return dtype, int(value.ty.dtype.bits)

    def _extern(self, function: atomics.Function, result: str, *arguments: ir.Expr) -> ir.Expr:
        self.functions[function.symbol] = function
        return tirx.call_extern(result, function.symbol, *arguments)


_HANDLERS: dict[str, Any] = {
    "tile.atomic_rmw": _Lowerer.atomic_rmw,
    "tile.atomic_load": _Lowerer.atomic_load,
    "tile.atomic_store": _Lowerer.atomic_store,
    "tile.print_element": _Lowerer.print_element,
}


_REMEDIES = {
    "tile.cast": "round= and sat=False are for a float of at most 32 bits that becomes a signed one of 8 or 16",
}


def _shown(call: ir.Call) -> str:
    """An intrinsic as a message names it."""
    name = str(call.op.name).removeprefix(PREFIX)
    if name != "cast":
        return name
    options = f'round="{call.attrs["rounding"]}", sat={bool(call.attrs["saturate"])}'
    return f"T.cast to {call.ty.dtype} with {options}"


def _reinterpret(dtype: str, value: ir.Expr) -> ir.Expr:
    return value if str(value.ty.dtype) == dtype else tirx.reinterpret(dtype, value)


def _printable(value: ir.Expr) -> ir.Expr:
    """What a packed call can carry: bool, int64 and float64."""
    dtype = str(value.ty.dtype)
    if dtype == "bool":
        return value
    wide = "float64" if dtype.startswith(("float", "bfloat")) else "int64"
    return value if dtype == wide else E.Cast(wide, value)
