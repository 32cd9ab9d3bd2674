"""How asynchronous instructions are built, printed and emulated.

An instruction is an op `cuda.<name>`, printed as a call of the function `tile_<name>`, whose `Snippet` holds the PTX
for the device and, beside it, the meaning for the emulator over `emulator/include/cuda_async.h`. A pointer operand is
`address_of(buffer[indices])`; in the emulator it is a `tile::Spot`, which names the buffer in reports, and the
instruction itself says there what it reads and writes.
"""

from __future__ import annotations

from typing import TypeAlias

from tvm import ir, tirx
from tvm.ir.prim import expr as E

from tile_core.ir.ops import tile_op
from tile_core.printer.expressions import place
from tile_core.printer.language import ExprHandler, Node, Snippet
from tile_core.printer.precedence import Code, call
from tile_core.printer.printer import Printer

Value: TypeAlias = ir.Expr | int
"""An int32 operand."""


def instruction(name: str, *operands: Value, result: str = "void", **attrs: int) -> ir.Expr:
    """The call of `cuda.<name>`; int operands become int32 constants."""
    given = [E.IntImm("int32", operand) if isinstance(operand, int) else operand for operand in operands]
    return ir.Call(tile_op(f"cuda.{name}"), given, attrs=dict(attrs) or None, ret_ty=ir.PrimType(result))


def function(name: str, *template: str, suffix: str = "") -> ExprHandler:
    """A call of the function `tile_<name>`.

    `template` are its template arguments: attributes, or positions of operands, which are constants and no arguments.
    `suffix` is an attribute on which the name depends.
    """

    def handler(printer: Printer, node: Node) -> Code:
        called = f"tile_{name}_{int(node.attrs[suffix])}d" if suffix else f"tile_{name}"
        printer.snippet(called)
        constants = {position for position in template if position.isdigit()}
        values = [
            int(node.args[int(argument)].value) if argument in constants else int(node.attrs[argument])
            for argument in template
        ]
        operands = [operand for position, operand in enumerate(node.args) if str(position) not in constants]
        if values:
            called = f"{called}<{', '.join(map(str, values))}>"
        return call(called, *(_operand(printer, operand) for operand in operands))

    return handler


def _operand(printer: Printer, operand: Node) -> Code:
    if isinstance(operand, ir.Call) and str(operand.op.name) == "tirx.address_of":
        return place(printer, operand)
    return printer.expr(operand)


def address(buffer: ir.Var, *indices: Value) -> ir.Expr:
    """`address_of(buffer[indices])`."""
    at = [E.IntImm("int32", index) if isinstance(index, int) else index for index in indices]
    return tirx.address_of(tirx.BufferLoad(buffer, at))


def device_function(
    name: str,
    parameters: str,
    body: str,
    emulated: str,
    *,
    template: str = "",
    result: str = "void",
    needs: tuple[str, ...] = ("tile_shared_address",),
) -> Snippet:
    """The function `name` for the device and for the emulator.

    In `parameters` `@` stands for an address: `const void*` on the device, `const tile::Spot&` in the emulator.
    """
    head = f"template <{template}>\n" if template else ""
    device, host = (parameters.replace("@", kind) for kind in ("const void* ", "const tile::Spot& "))
    text = f"{head}__device__ __forceinline__ {result} {name}({device}) {{\n  {body}\n}}"
    return Snippet(text, needs, f"{head}inline {result} {name}({host}) {{ {emulated} }}")


COMMON = {
    "tile_shared_address": Snippet(
        """
__device__ __forceinline__ unsigned tile_shared_address(const void* address) {
  return static_cast<unsigned>(__cvta_generic_to_shared(address));
}
""",
        emulated="",
    )
}
