"""The language that is printed: plain C, with what differs from the base stated as table entries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tvm.tirx.stmt import DeclBuffer, ForKind

from tile_core.ir import regions
from tile_core.ir.views import viewed
from tile_core.printer import Helper, PrintedFunction, Printer, print_function
from tile_core.printer.c import C
from tile_core.printer.precedence import Code, call

if TYPE_CHECKING:
    from tvm import ir, tirx

    from tile_core.jit.artifact import CompileRequest

# Tiles can be larger than a stack; thread-local storage also lets two Python threads run one kernel at the same time.
_TILE = "static _Thread_local"

_RMW = """{{inline}} {{type}} {{name}}({{type}}* p, {{type}} v) {{{{
  {{type}} old = *p;
  *p = {value};
  return old;
}}}}"""
_ATOMICS = {
    kind: Helper(f"fetch_{kind}", _RMW.format(value=value))
    for kind, value in {
        "add": "old + v",
        "max": "old > v || old != old ? old : v",
        "min": "old < v || old != old ? old : v",
        "or": "old | v",
    }.items()
}


def atomic_rmw(printer: Printer, node: ir.Call) -> Code:
    """Read, combine, write. Blocks run one after another in one thread, so nothing can come between."""
    address, operand = node.args
    name = printer.helper(_ATOMICS[str(node.attrs["kind"])], printer.dtype(operand), node)
    return call(name, printer.expr(address), printer.expr(operand))


def view(printer: Printer, node: Any) -> None:
    """Another shape or type for the memory of a tile: a pointer. `compiler.FLAGS` lets pointers of two types meet."""
    buffer, sources = node.buffer, viewed(node)
    if not sources or (buffer.ty.elem_offset is not None and regions.constant(buffer.ty.elem_offset) != 0):
        raise printer.unprintable(f"the view {buffer.name}", node)
    kind, source = printer.type_name(str(buffer.ty.dtype), node), printer.name(sources[0])
    printer.line(f"{kind}* const {printer.names.declare(buffer, str(buffer.name))} = ({kind}*){source};")


TOY_C = C.extend(
    "toy C",
    scopes=dict.fromkeys(("shared", "shared.dyn", "local.fragment", "local", regions.REDUCER), _TILE),
    statements={DeclBuffer: view},
    calls={"tile.atomic_rmw": atomic_rmw},
    helpers=(*C.helpers, *_ATOMICS.values()),
    loops={int(ForKind.UNROLLED): "#pragma GCC unroll 16"},
)


def print_kernel(lowered: tirx.PrimFunc, request: CompileRequest) -> PrintedFunction:
    """The C source of a lowered kernel. Needs no compiler.

    Raises:
        UnprintableError: the kernel holds something that C or this backend cannot say.
    """
    return print_function(lowered, TOY_C, target=request.target)
