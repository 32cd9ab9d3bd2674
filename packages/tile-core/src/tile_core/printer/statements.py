"""Handlers for statements, the same in every C-family language."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from tvm import ir, tirx
from tvm.tirx import stmt as S

from tile_core.ir import visit
from tile_core.ir.regions import constant, scope
from tile_core.passes.unroll_loops import UNROLL_FACTOR
from tile_core.printer.expressions import element
from tile_core.printer.language import WRITE, Node
from tile_core.printer.precedence import LESS, Code

if TYPE_CHECKING:
    from tile_core.printer.printer import Printer


def _sequence(printer: Printer, node: Node) -> None:
    for stmt in node.seq:
        printer.stmt(stmt)


def _bind(printer: Printer, node: Node) -> None:
    with printer.overflow.seen():
        value = printer.expr(node.value)
    type_name = printer.type_name(printer.dtype(node.var), node)
    if printer.dtype(node.var).startswith(("int", "uint")):
        printer.intervals.bind(node.var, printer.intervals.of(node.value))
        printer.overflow.bind(node.var, node.value)
    name = printer.names.declare(node.var, str(node.var.name))
    printer.line(f"{printer.language.const}{type_name} {name} = {value.text};")


def _allocate(printer: Printer, node: Node) -> None:
    buffer = node.buffer
    place = scope(buffer)
    if place not in printer.language.scopes:
        raise printer.unprintable(f"memory of scope {place!r} (buffer {buffer.name})", node)
    qualifier = printer.language.scopes[place]
    type_name = printer.type_name(str(buffer.ty.dtype), node)
    name = printer.names.declare(buffer, str(buffer.name))
    size = "" if printer.is_scalar(buffer) else f"[{_elements(printer, node)}]"
    printer.line(f"{qualifier}{' ' if qualifier else ''}{type_name} {name}{size};")


def _elements(printer: Printer, node: Node) -> int:
    if len(node.buffer.ty.strides):
        raise printer.unprintable(f"the allocation of {node.buffer.name} with strides", node)
    count = 1
    for extent in node.buffer.ty.shape:
        value = constant(extent)
        if value is None:
            raise printer.unprintable(
                f"the allocation of {node.buffer.name}, whose extent {extent} is not constant", node
            )
        count *= value
    # C has no arrays of no elements.
    return max(count, 1)


def _store(printer: Printer, node: Node) -> None:
    if node.value.ty.dtype.lanes != 1:
        if printer.language.vector_store is None:
            raise printer.unprintable(f"a store of {printer.dtype(node.value)}", node)
        printer.language.vector_store(printer, node)
        return
    target = element(printer, node.buffer, node.indices, WRITE)
    with printer.overflow.seen(by=printer.language.wraps_stored or scope(node.buffer) != "global"):
        value = printer.expr(node.value)
    printer.line(f"{target.text} = {value.text};")


def _loop(printer: Printer, node: Node) -> None:
    if int(node.kind) not in printer.language.loops:
        raise printer.unprintable(f"a loop of kind {S.ForKind(node.kind).name.lower()}", node)
    step = 1 if node.step is None else constant(node.step)
    if step is None or step < 1:
        raise printer.unprintable(f"a loop whose step is {node.step}, not a positive constant", node)
    if pragma := printer.language.loops[int(node.kind)]:
        factor = node.annotations.get(UNROLL_FACTOR)
        printer.pragma(pragma if factor is None else f"{pragma.rstrip('0123456789 ')} {int(factor)}")
    counted_loop(printer, node.loop_var, node.min, node.extent, lambda: printer.stmt(node.body), step)


def counted_loop(
    printer: Printer, var: Node, start: Node, extent: Node, body: Callable[[], None], step: int = 1
) -> None:
    """`for (int i = start; i < start + extent; i += step)`, the bound evaluated once."""
    type_name = printer.type_name(printer.dtype(var))
    first = printer.expr(start)
    stop = _stop(printer, var, start + extent)
    printer.intervals.bind_loop(var, start, extent)
    with printer.names.scope():
        name = printer.names.declare(var, str(var.name))
        condition = LESS.join(Code(name), stop).text
        advance = f"++{name}" if step == 1 else f"{name} += {step}"
        with printer.block(f"for ({type_name} {name} = {first.text}; {condition}; {advance})"):
            body()


def _stop(printer: Printer, var: Node, stop: Node) -> Code:
    """The bound, in a variable of its own where the body could change it."""
    if not visit.collect(stop, ir.TensorLoad) and not visit.collect(stop, ir.Call):
        return printer.expr(stop)
    value = printer.expr(stop)
    type_name = printer.type_name(printer.dtype(var))
    name = printer.names.declare(stop, f"{var.name}_stop")
    printer.line(f"{printer.language.const}{type_name} {name} = {value.text};")
    return Code(name)


def _while(printer: Printer, node: Node) -> None:
    with printer.conditional():
        condition = printer.expr(node.condition)
    with printer.block(f"while ({condition.text})"):
        printer.stmt(node.body)


def _if(printer: Printer, node: Node) -> None:
    printer.line(f"if ({printer.expr(node.condition).text}) {{")
    with printer.indented():
        printer.stmt(node.then_case)
    printer.close()
    other = node.else_case
    while isinstance(other, S.IfThenElse):
        with printer.conditional():
            condition = printer.expr(other.condition)
        printer.reopen(f"else if ({condition.text})")
        with printer.indented():
            printer.stmt(other.then_case)
        printer.close()
        other = other.else_case
    if other is not None:
        printer.reopen("else")
        with printer.indented():
            printer.stmt(other)
        printer.close()


def _break(printer: Printer, node: Node) -> None:
    printer.line("break;")


def _continue(printer: Printer, node: Node) -> None:
    printer.line("continue;")


def _evaluate(printer: Printer, node: Node) -> None:
    if isinstance(node.value, tirx.IntImm):
        return
    printer.line(f"{printer.expr(node.value).text};")


def _attribute(printer: Printer, node: Node) -> None:
    if str(node.attr_key) not in printer.language.attributes:
        raise printer.unprintable(f"the attribute {node.attr_key}", node)
    printer.stmt(node.body)


STATEMENTS: Mapping[type, Callable[[Printer, Node], None]] = MappingProxyType(
    {
        S.SeqStmt: _sequence,
        S.Bind: _bind,
        S.AllocBuffer: _allocate,
        S.BufferStore: _store,
        S.For: _loop,
        S.While: _while,
        S.IfThenElse: _if,
        S.Break: _break,
        S.Continue: _continue,
        S.Evaluate: _evaluate,
        S.AttrStmt: _attribute,
    }
)
