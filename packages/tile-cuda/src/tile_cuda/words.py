"""How CUDA C++ spells loads, stores and values of whole words: `uint2`, `uint4`, and a structure of eight.

CUDA C++ Programming Guide, "Built-in Vector Types". Accesses of 32 bytes are one instruction from sm_100 on (PTX ISA,
"ld", `.v8`), which the compiler makes of `ulonglong4_32a`; before, they are two of 16 bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tvm.ir.prim import expr as P

from tile_core.ops.words import LOAD, STORE
from tile_core.printer.expressions import element, if_then_else
from tile_core.printer.language import ExprHandler, Node, Snippet, Use
from tile_core.printer.precedence import Code, Precedence, call, conditional, prefix
from tile_core.printer.printer import Printer

TYPES: Mapping[str, str] = {"uint32x2": "uint2", "uint32x4": "uint4", "uint32x8": "tile_words"}
VECTOR_CALLS = frozenset({LOAD, "prim.if_then_else"})
_MEMBERS = "xyzw"


def _type(printer: Printer, node: Node) -> str:
    dtype = printer.dtype(node)
    if dtype == "uint32x8":
        printer.snippet("tile_words")
    return printer.type_name(dtype, node)


def _memory(printer: Printer, call_node: Node, kind: str, value: Node, use: Any) -> Code:
    load = call_node.args[0].args[0]
    bits, own = int(value.ty.dtype.lanes) * 32, int(load.ty.dtype.bits)
    target = element(printer, load.source, load.indices, Use(use, bits // own))
    const = printer.language.const if use == "read" else ""
    return prefix("*", Code(f"reinterpret_cast<{const}{kind}*>(&{target.text})", Precedence.POSTFIX))


def _load(printer: Printer, node: Node) -> Code:
    kind = _type(printer, node)
    condition = printer.expr(node.args[1])
    if condition.text == "true":
        return _memory(printer, node, kind, node, "read")
    with printer.conditional():
        loaded = _memory(printer, node, kind, node, "read")
    return conditional(condition, loaded, Code(f"{kind}()"))


def _store(printer: Printer, node: Node) -> Code:
    value = node.args[1]
    target = _memory(printer, node, _type(printer, value), value, "write")
    return Code(f"{target.text} = {printer.expr(value).text}", Precedence.CONDITIONAL)


def _if_then_else(printer: Printer, node: Node) -> Code:
    """The conditional that a guard puts around a load, of scalars and of words."""
    if int(node.ty.dtype.lanes) == 1:
        return if_then_else(printer, node)
    _require_words(printer, node)
    condition, chosen, otherwise = node.args
    first = printer.expr(condition)
    with printer.conditional():
        return conditional(first, printer.expr(chosen), printer.expr(otherwise))


def _require_words(printer: Printer, node: Node) -> None:
    if printer.dtype(node) not in TYPES:
        raise printer.unprintable(printer.describe(node), node)


def _made(printer: Printer, node: Node, lanes: list[Code]) -> Code:
    kind = _type(printer, node)
    return call("tile_words", *lanes) if kind == "tile_words" else call(f"make_{kind}", *lanes)


def _lane(printer: Printer, vector: Node, lane: int) -> Code:
    """One lane of a vector in a variable."""
    _require_words(printer, vector)
    code = printer.expr(vector)
    member = f".lanes[{lane}]" if _type(printer, vector) == "tile_words" else f".{_MEMBERS[lane]}"
    return Code(f"{code.at(Precedence.POSTFIX)}{member}", Precedence.POSTFIX)


def _shuffle(printer: Printer, node: Node) -> Code:
    """Lanes of vectors, one or several."""
    lanes = [(vector, lane) for vector in node.vectors for lane in range(int(vector.ty.dtype.lanes))]
    picked = [lanes[int(index.value)] for index in node.indices]
    codes = [
        _lane(printer, vector, lane) if int(vector.ty.dtype.lanes) > 1 else printer.expr(vector)
        for vector, lane in picked
    ]
    if len(codes) == 1:
        return codes[0]
    _require_words(printer, node)
    return _made(printer, node, codes)


def _broadcast(printer: Printer, node: Node) -> Code:
    _require_words(printer, node)
    return _made(printer, node, [printer.expr(node.value)] * int(node.ty.dtype.lanes))


SNIPPETS: Mapping[str, Snippet] = {
    "tile_words": Snippet("""
// Eight words that move at once.
struct alignas(32) tile_words {
  unsigned lanes[8];
  tile_words() = default;
  __device__ __forceinline__ tile_words(unsigned a, unsigned b, unsigned c, unsigned d, unsigned e, unsigned f,
                                        unsigned g, unsigned h)
      : lanes{a, b, c, d, e, f, g, h} {}
  __device__ __forceinline__ tile_words(const tile_words& other) { *this = other; }
  __device__ __forceinline__ tile_words& operator=(const tile_words& other) {
    *reinterpret_cast<ulonglong4_32a*>(lanes) = *reinterpret_cast<const ulonglong4_32a*>(other.lanes);
    return *this;
  }
};
"""),
}
CALLS: Mapping[str, ExprHandler] = {LOAD: _load, STORE: _store, "prim.if_then_else": _if_then_else}
EXPRESSIONS: Mapping[type, ExprHandler] = {P.Shuffle: _shuffle, P.Broadcast: _broadcast}
