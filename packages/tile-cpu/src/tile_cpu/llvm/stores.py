"""Stores that do not bring the line they write into the caches."""

from __future__ import annotations

from tile_cpu.llvm.functions import Function

LINE_BITS = 512
"""Bits of a cache line: only whole lines are worth it."""

_TYPES = {
    "float32": "float",
    "float64": "double",
    "int32": "i32",
    "int64": "i64",
    "uint32": "i32",
    "uint64": "i64",
    "int16": "i16",
    "uint16": "i16",
    "int8": "i8",
    "uint8": "i8",
    "float16": "half",
}
DTYPES = frozenset(_TYPES)
"""The dtypes that can be stored so."""


def store_past_caches(dtype: str, lanes: int) -> Function:
    """Store a vector that fills a cache line; at an address that is not a line's, an ordinary store.

    Arguments: the address, the vector. The stores of a thread become visible with its next locked instruction, such as
    the one by which the pool joins.
    """
    symbol, vector = f"tile_store_past_{dtype}x{lanes}", f"<{lanes} x {_TYPES[dtype]}>"
    text = f"""
define i32 @{symbol}(ptr %place, {vector} %value) {{
  %address = ptrtoint ptr %place to i64
  %offset = and i64 %address, {LINE_BITS // 8 - 1}
  %aligned = icmp eq i64 %offset, 0
  br i1 %aligned, label %past, label %through
past:
  store {vector} %value, ptr %place, align {LINE_BITS // 8}, !nontemporal !{{i32 1}}
  ret i32 0
through:
  store {vector} %value, ptr %place, align 1
  ret i32 0
}}
"""
    return Function(symbol, text)
