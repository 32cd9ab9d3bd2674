"""Atomic operations of Metal, which are relaxed and of 4 bytes.

Sums, maxima, minima and unions of int32 and uint32 are instructions, sums of float32 are one in device memory. Anything
else of up to 4 bytes is a compare-and-swap of the word that holds it. What Metal has no instruction for at all, 8 bytes
and an order of other accesses, is refused. ("Metal Shading Language Specification", the chapter on atomic functions.)
"""

from __future__ import annotations

from collections.abc import Mapping

from tile_core.dtypes import as_dtype
from tile_core.ir import regions
from tile_core.printer.language import ExprHandler, Node, Snippet
from tile_core.printer.precedence import Code, call
from tile_core.printer.printer import Printer

_WORD = {"int32": "atomic_int", "uint32": "atomic_uint"}
_RELAXED = Code("memory_order_relaxed")
_BITS = 32
_COMBINED = {
    "add": ("tile_sum(old, value)", ("tile_sum",)),
    "max": ("tile_max(old, value)", ("tile_max",)),
    "min": ("tile_min(old, value)", ("tile_min",)),
    "or": ("T(old | value)", ()),
    "put": ("value", ()),
}


def _atomic(printer: Printer, node: Node) -> Code:
    """The value before; a combination that the hardware has, or one by compare-and-swap."""
    space, dtype, kind = _place(printer, node), printer.dtype(node), str(node.attrs["kind"])
    address, value = map(printer.expr, node.args)
    in_device_memory = space == printer.language.spaces[regions.GLOBAL]
    word = "atomic_float" if dtype == "float32" and kind == "add" and in_device_memory else _WORD.get(dtype)
    if word is not None and kind in _COMBINED:
        at = call(f"reinterpret_cast<{space}{word}*>", address)
        return call(f"atomic_fetch_{kind}_explicit", at, value, _RELAXED)
    printer.snippet(f"tile_atomic_{kind}")
    swap = f"tile_atomic_swap<{space}atomic_uint, tile_atomic_{kind}, {printer.type_name(dtype, node)}>"
    return call(swap, address, value)


def _load(printer: Printer, node: Node) -> Code:
    """A word, or the part of one."""
    space, type_name = _place(printer, node), printer.type_name(printer.dtype(node), node)
    printer.snippet("tile_atomic_load")
    return call(f"tile_atomic_load<const {space}atomic_uint, {type_name}>", printer.expr(node.args[0]))


def _store(printer: Printer, node: Node) -> Code:
    """A word, or the part of one, which takes a compare-and-swap."""
    space, dtype = _place(printer, node), str(node.args[0].args[0].source.dtype)
    address, value = map(printer.expr, node.args)
    if as_dtype(dtype).bits == _BITS:
        at = call(f"reinterpret_cast<{space}atomic_uint*>", address)
        return call("atomic_store_explicit", at, call("as_type<uint>", value), _RELAXED)
    printer.snippet("tile_atomic_put")
    swap = f"tile_atomic_swap<{space}atomic_uint, tile_atomic_put, {printer.type_name(dtype, node)}>"
    return call(swap, address, value)


def _place(printer: Printer, node: Node) -> str:
    """The address space of an atomic operation that Metal has."""
    buffer = node.args[0].args[0].source
    bits, what = int(buffer.dtype.bits), f"{printer.describe(node)} on {buffer.name}"
    if int(node.attrs.get("memory_order", 0)):
        raise printer.unprintable(f"{what} that orders other accesses", node, 'give memory_order="relaxed"')
    if bits > _BITS:
        raise printer.unprintable(f"{what}, of {bits} bits", node, "use a dtype of 32 bits")
    return str(printer.language.spaces[regions.scope(buffer)])


_BYTES = """
// The bits of a value, as an unsigned integer of its size.
template <typename T> struct tile_bits { typedef uint type; };
template <> struct tile_bits<half> { typedef ushort type; };
template <> struct tile_bits<bfloat> { typedef ushort type; };
template <> struct tile_bits<short> { typedef ushort type; };
template <> struct tile_bits<ushort> { typedef ushort type; };
template <> struct tile_bits<int8_t> { typedef uchar type; };
template <> struct tile_bits<uchar> { typedef uchar type; };
"""
_LOAD = """
// An element, read with the word that holds it.
template <typename Word, typename T, typename Pointer>
inline T tile_atomic_load(Pointer address) {
  const uint behind = uint(reinterpret_cast<ulong>(address) % 4);
  const uint word = atomic_load_explicit(reinterpret_cast<Word*>(address - behind / sizeof(T)), memory_order_relaxed);
  return as_type<T>(typename tile_bits<T>::type(word >> behind * 8));
}
"""
_SWAP = """
// Read-modify-write of one element, as a compare-and-swap of the word that holds it; the value before.
template <typename Word, typename Combine, typename T, typename Pointer>
inline T tile_atomic_swap(Pointer address, T value) {
  typedef typename tile_bits<T>::type Bits;
  const uint behind = uint(reinterpret_cast<ulong>(address) % 4), shift = behind * 8;
  Word* const word = reinterpret_cast<Word*>(address - behind / sizeof(T));
  const uint mask = (~0u >> (32 - 8 * sizeof(T))) << shift;
  const Combine combine = Combine();
  uint seen = atomic_load_explicit(word, memory_order_relaxed);
  while (true) {
    const T old = as_type<T>(Bits((seen & mask) >> shift));
    const uint wanted = (seen & ~mask) | uint(as_type<Bits>(combine(old, value))) << shift;
    if (atomic_compare_exchange_weak_explicit(word, &seen, wanted, memory_order_relaxed, memory_order_relaxed)) {
      return old;
    }
  }
}
"""
_HALF = """
// Replaces half of a byte: bits 0 to 3 of `value` are the new one, bit 4 says which half.
struct tile_atomic_half {
  template <typename T>
  T operator()(T old, T value) const {
    const uint shift = (value >> 4 & 1) != 0 ? 4u : 0u;
    return T((old & ~(15u << shift)) | (value & 15u) << shift);
  }
};
"""


def _combination(kind: str) -> Snippet:
    combined, needs = _COMBINED[kind]
    text = f"""
struct tile_atomic_{kind} {{
  template <typename T>
  T operator()(T old, T value) const {{ return {combined}; }}
}};
"""
    return Snippet(text, needs=(*needs, "tile_atomic_swap"))


SNIPPETS: Mapping[str, Snippet] = {
    "tile_bits": Snippet(_BYTES),
    "tile_atomic_load": Snippet(_LOAD, needs=("tile_bits",)),
    "tile_atomic_swap": Snippet(_SWAP, needs=("tile_bits",)),
    **{f"tile_atomic_{kind}": _combination(kind) for kind in _COMBINED},
    "tile_atomic_half": Snippet(_HALF, needs=("tile_atomic_swap",)),
}
CALLS: Mapping[str, ExprHandler] = {
    "tile.atomic_rmw": _atomic,
    "tile.atomic_load": _load,
    "tile.atomic_store": _store,
}
