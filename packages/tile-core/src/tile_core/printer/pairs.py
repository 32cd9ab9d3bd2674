"""Pairs of narrow floats, which `passes/pack_lanes.py` makes, as calls of a language's functions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tvm import ir
from tvm.ir.prim import expr as E

from tile_core.passes.pack_lanes import LESS, PACK, PAIRED_CALLS, PAIRED_NODES, UNPACK
from tile_core.printer.language import ExprHandler
from tile_core.printer.precedence import Code, call

if TYPE_CHECKING:
    from tile_core.printer.printer import Printer


@dataclass(frozen=True)
class Pair:
    """How a language computes on two narrow floats at once: their type, and functions by the names of `PackLanes`.

    They are functions or snippets of the language.
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
            less = E.IntImm("int32", int(node.attrs[LESS]))
            return self._call(printer, node, pair, "nibbles", *node.args, less)
        return self._call(printer, node, pair, "cast" if name == PACK else PAIRED_CALLS.get(name, name), *node.args)

    def _broadcast(self, printer: Printer, node: Any) -> Code:
        pair = self._of(node)
        if pair is not None:
            return self._call(printer, node, pair, "broadcast", node.value)
        if E.Broadcast not in self.others:
            raise printer.unprintable(printer.describe(node), node)
        return self.others[E.Broadcast](printer, node)
