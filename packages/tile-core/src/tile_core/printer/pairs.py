"""Pairs of narrow floats, which `passes/pack_lanes.py` makes, as calls of a language's functions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tvm import ir
from tvm.ir.prim import expr as E

from tile_core.ir import regions
from tile_core.passes.pack_lanes import LESS, PACK, PAIRED_CALLS, PAIRED_NODES, UNPACK
from tile_core.printer.language import ExprHandler
from tile_core.printer.precedence import Code, call

if TYPE_CHECKING:
    from tile_core.printer.printer import Printer


BYTE_NIBBLES = "byte_nibbles"
"""The name of `nibbles` of an array's byte: array, index and what is taken off."""
WORD_BYTES = 4


@dataclass(frozen=True)
class Pair:
    """How a language computes on two narrow floats at once: their type, and functions by the names of `PackLanes`.

    They are functions or snippets of the language. It may have `BYTE_NIBBLES` too.
    """

    type: str
    calls: Mapping[str, str]

    @property
    def operations(self) -> frozenset[str]:
        """The names that `PackLanes` takes."""
        return frozenset(self.calls)


@dataclass(frozen=True)
class PairHandlers:
    """Handlers that print pairs, by dtype of one value, and everything else as `others` do."""

    pairs: Mapping[str, Pair]
    others: Mapping[type, ExprHandler]

    def expressions(self) -> dict[type, ExprHandler]:
        """All handlers by node."""
        binary = {kind: self._binary(kind, name) for name, kind in PAIRED_NODES.items()}
        return {**self.others, **binary, ir.Call: self._operation, E.Broadcast: self._broadcast}

    def _of(self, node: Any) -> Pair | None:
        dtype = str(getattr(node.ty, "dtype", ""))
        return self.pairs.get(dtype.removesuffix("x2")) if dtype.endswith("x2") else None

    def _call(self, printer: Printer, node: Any, pair: Pair, name: str, *operands: Any) -> Code:
        function = pair.calls.get(name)
        if function is None:
            raise printer.unprintable(printer.describe(node), node)
        if function in printer.language.snippets:
            printer.snippet(function)
        return call(function, *map(printer.expr, operands))

    def _binary(self, kind: type, name: str) -> ExprHandler:
        def handler(printer: Printer, node: Any) -> Code:
            pair = self._of(node)
            if pair is None:
                return self.others[kind](printer, node)
            return self._call(printer, node, pair, name, node.a, node.b)

        return handler

    def _operation(self, printer: Printer, node: Any) -> Code:
        pair = self._of(node)
        if pair is None:
            return self.others[ir.Call](printer, node)
        name = str(node.op.name) if isinstance(node.op, ir.Op) else ""
        if name == UNPACK:
            return self._unpacked(printer, node, pair)
        return self._call(printer, node, pair, "cast" if name == PACK else PAIRED_CALLS.get(name, name), *node.args)

    def _unpacked(self, printer: Printer, node: Any, pair: Pair) -> Code:
        """The halves of a byte: of the array that has it where that is whole words, whose bytes move for nothing."""
        (bits,), less = node.args, E.IntImm("int32", int(node.attrs[LESS]))
        load = bits.value if isinstance(bits, E.Cast) else bits
        if BYTE_NIBBLES in pair.calls and isinstance(load, ir.TensorLoad) and _is_words_of_bytes(load.source):
            return self._call(printer, node, pair, BYTE_NIBBLES, load.source, *load.indices, less)
        return self._call(printer, node, pair, "nibbles", bits, less)

    def _broadcast(self, printer: Printer, node: Any) -> Code:
        pair = self._of(node)
        if pair is not None:
            return self._call(printer, node, pair, "broadcast", node.value)
        if E.Broadcast not in self.others:
            raise printer.unprintable(printer.describe(node), node)
        return self.others[E.Broadcast](printer, node)


def _is_words_of_bytes(array: ir.Var) -> bool:
    """Whether an array of a thread is words of four bytes."""
    is_bytes = str(array.dtype) in ("uint8", "int8") and regions.scope(array) == regions.LOCAL
    length = regions.constant(array.shape[0]) if is_bytes and len(array.shape) == 1 else None
    return length is not None and length % WORD_BYTES == 0
