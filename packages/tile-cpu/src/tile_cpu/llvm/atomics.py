"""Atomic operations on one element as LLVM IR functions.

TVM's code generator has no atomics. An operation that the CPU lacks (floats, max, min) becomes a compare-and-swap loop
in LLVM. `fmaximum` and `fminimum` propagate NaN, as `T.atomic_max` and `T.atomic_min` do.
"""

from __future__ import annotations

from dataclasses import dataclass

ORDERINGS = ("monotonic", "acquire", "acquire", "release", "acq_rel", "seq_cst")
"""By the number of the memory order, relaxed to seq_cst; LLVM has no consume, acquire is stronger."""

_FLOATS = {"float16": "half", "bfloat16": "bfloat", "float32": "float", "float64": "double"}
_FLOAT_OPS = {"add": "fadd", "max": "fmaximum", "min": "fminimum"}
_SIGNED_OPS = {"add": "add", "max": "max", "min": "min", "or": "or"}
_UNSIGNED_OPS = {"add": "add", "max": "umax", "min": "umin", "or": "or"}


@dataclass(frozen=True)
class Function:
    """An LLVM IR function: its symbol and its text."""

    symbol: str
    text: str


def supports(dtype: str) -> bool:
    """Whether elements of `dtype` can be updated atomically."""
    return dtype in _FLOATS or dtype.removeprefix("u") in ("int8", "int16", "int32", "int64")


def rmw(kind: str, dtype: str, bits: int, order: int) -> Function:
    """`old = *address; *address = kind(old, operand)` in one step; operand and result are the element's bits."""
    symbol = f"tile_atomic_{kind}_{dtype}_{order}"
    integer = f"i{bits}"
    element = _FLOATS.get(dtype, integer)
    operations = _FLOAT_OPS if dtype in _FLOATS else _UNSIGNED_OPS if dtype.startswith("u") else _SIGNED_OPS
    operation, ordering = operations[kind], ORDERINGS[order]
    return Function(
        symbol,
        f"""
define {integer} @{symbol}(ptr %address, {integer} %bits) {{
  %operand = bitcast {integer} %bits to {element}
  %old = atomicrmw {operation} ptr %address, {element} %operand {ordering}
  %result = bitcast {element} %old to {integer}
  ret {integer} %result
}}
""",
    )


def load(bits: int, order: int) -> Function:
    """The element's bits, read in one step."""
    symbol = f"tile_atomic_load_{bits}_{order}"
    ordering = "acquire" if order in (3, 4) else ORDERINGS[order]
    return Function(
        symbol,
        f"""
define i{bits} @{symbol}(ptr %address) {{
  %value = load atomic i{bits}, ptr %address {ordering}, align {bits // 8}
  ret i{bits} %value
}}
""",
    )


def store(bits: int, order: int) -> Function:
    """Write the element's bits in one step."""
    symbol = f"tile_atomic_store_{bits}_{order}"
    ordering = "release" if order in (1, 2, 4) else ORDERINGS[order]
    return Function(
        symbol,
        f"""
define i32 @{symbol}(ptr %address, i{bits} %value) {{
  store atomic i{bits} %value, ptr %address {ordering}, align {bits // 8}
  ret i32 0
}}
""",
    )
