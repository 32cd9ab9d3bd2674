"""What an instruction of the hardware is to the printer: text for the device beside its meaning on the host.

An instruction is a call `ir.Call(tile_op("…"), operands, attrs)`. For the device it is printed as a call of a function
around it, which joins the source for the forms in use only. For emulated execution it is printed as a call of what the
backend's `emulator/include` defines, and its pointers as accesses, so that checks see what it reads and writes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from tvm import ir, tirx
from tvm.ir.prim import expr as E

from tile_core.ir.ops import tile_op
from tile_core.printer.expressions import element, place
from tile_core.printer.language import Forms, Node, Use
from tile_core.printer.precedence import Code, Precedence, call, prefix
from tile_core.printer.printer import Printer

Attributes: TypeAlias = Mapping[str, Any]
Size: TypeAlias = Callable[[Attributes], int]


@dataclass(frozen=True)
class Function:
    """A function of the printed source."""

    name: str
    text: str


@dataclass(frozen=True)
class Pointer:
    """A pointer operand: the bytes from there on that the instruction reads, writes, or both.

    `when` is the position of an operand that, where it is 0, says that nothing is read. `lazy` marks an address that
    not every lane uses; `later` that what is read and written is so when a wait has passed (what is only read may be
    read again, but not written before); `accounted` that the emulator's function says itself what happens there.
    """

    reads: Size | None = None
    writes: Size | None = None
    when: int | None = None
    lazy: bool = False
    later: bool = False
    accounted: bool = False


@dataclass(frozen=True)
class Instruction:
    """One operation of the table.

    * `device`: the function that it is printed as, for its attributes.
    * `host`: what it is in the emulator, a name with template arguments.
    * `pointers`: operand positions to what happens there.
    """

    op: str
    device: Callable[[Attributes], Function]
    host: Callable[[Attributes], str]
    pointers: Mapping[int, Pointer]
    pure: bool = False

    def __call__(
        self, operands: Sequence[ir.Expr] = (), attributes: Attributes | None = None, dtype: str = "void"
    ) -> ir.Call:
        """The call in the IR; `dtype` is that of its value."""
        result = dtype if dtype == "void" else ir.PrimType(dtype)
        attrs = dict(attributes) if attributes else None
        return ir.Call(tile_op(self.op, pure=self.pure), list(operands), attrs=attrs, ret_ty=result)

    @property
    def forms(self) -> Forms:
        """How it is printed."""
        return Forms(self._on_the_device, self._on_the_host)

    def _on_the_device(self, printer: Printer, node: Node) -> Code:
        function = self.device(node.attrs or {})
        printer.define(function.name, function.text)
        return call(function.name, *map(printer.expr, node.args))

    def _on_the_host(self, printer: Printer, node: Node) -> Code:
        attributes = node.attrs or {}
        operands = []
        for position, argument in enumerate(node.args):
            pointer = self.pointers.get(position)
            operands.append(
                printer.expr(argument) if pointer is None else _pointer(printer, node, argument, pointer, attributes)
            )
        return call(self.host(attributes), *operands)


def _pointer(printer: Printer, node: Node, argument: Node, pointer: Pointer, attributes: Attributes) -> Code:
    if pointer.accounted:
        return place(printer, argument)
    (load,) = argument.args
    itembits = int(load.ty.dtype.bits)
    read: Literal["read", "continue", "lent"] = "read"
    if pointer.later:
        read = "lent" if pointer.writes is None else "continue"
    write: Literal["write", "begin"] = "begin" if pointer.later else "write"
    sizes = ((read, pointer.reads), (write, pointer.writes))
    uses = [Use(kind, max(1, size(attributes) * 8 // itembits)) for kind, size in sizes if size is not None]
    accesses = [prefix("&", element(printer, load.source, load.indices, use)) for use in uses]
    last = accesses[-1]
    if pointer.lazy:
        return Code(f"[&] {{ return {last.text}; }}")
    if accesses[0] == last:
        return last
    first = accesses[0].text
    if pointer.when is not None:
        first = f"{printer.expr(node.args[pointer.when]).at(Precedence.EQUALITY)} != 0 ? {first} : nullptr"
    return Code(f"({first}, {last.text})")


def address_of(buffer: ir.Var, *index: ir.Expr | int) -> ir.Expr:
    """The address of an element: what pointer operands are made of."""
    at = [E.IntImm("int32", value) if isinstance(value, int) else value for value in index]
    return tirx.address_of(tirx.BufferLoad(buffer, at))
