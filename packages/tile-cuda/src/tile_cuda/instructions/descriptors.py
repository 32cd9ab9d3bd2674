"""Descriptors of shared memory that products of a warpgroup read. PTX ISA, "Matrix-descriptor"."""

from __future__ import annotations

from tvm import ir
from tvm.ir.prim import expr as E

from tile_cuda.instructions.base import INLINE, Attributes, Function, Instruction

__all__ = ["descriptor_advance", "smem_descriptor"]

SWIZZLES = {0: 0, 128: 1, 64: 2, 32: 3}
"""Bytes of a swizzled row to the code in bits 62 and 63 of a descriptor."""
DESCRIPTOR_UNIT = 16
"""Bytes: addresses and distances are multiples of it."""


def _fields(attributes: Attributes) -> int:
    """Everything of a descriptor but the address."""
    leading, stride = int(attributes["leading_bytes"]), int(attributes["stride_bytes"])
    return (
        leading // DESCRIPTOR_UNIT << 16 | stride // DESCRIPTOR_UNIT << 32 | SWIZZLES[int(attributes["swizzle"])] << 62
    )


def _descriptor(attributes: Attributes) -> Function:
    fields = _fields(attributes)
    name = f"tile_smem_descriptor_{fields:x}"
    text = f"""
{INLINE} unsigned long long {name}(const void* tile) {{
  const unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(tile));
  return {fields:#x}ull | (address & 0x3ffff) >> 4;
}}
"""
    return Function(name, text)


def _host_descriptor(attributes: Attributes) -> str:
    return f"tile::smem_descriptor<{_fields(attributes):#x}ull>"


DESCRIPTOR = Instruction("cuda.smem_descriptor", _descriptor, _host_descriptor, {}, pure=True)


def smem_descriptor(tile: ir.Expr, *, leading_bytes: int, stride_bytes: int, swizzle: int) -> ir.Call:
    """The uint64 descriptor of an operand that begins at `tile`, whose rows of `swizzle` bytes are swizzled (0: not).

    With w = `swizzle` or 16 bytes, 8 rows of w bytes are one block. Where k is the fast axis a row is one m (or n), the
    next 8 are `stride_bytes` away and, without a swizzle, the next 16 bytes of k `leading_bytes`. Where m (or n) is the
    fast axis a row is one k; the next 8 k are `stride_bytes` and the next w bytes `leading_bytes` away, without a
    swizzle the other way round. A swizzled tile lies at a multiple of 8w bytes.

    Raises:
        ValueError: a swizzle that there is not, or a distance that is no multiple of 16 or does not fit.
    """
    if swizzle not in SWIZZLES:
        raise ValueError(f"a swizzle spans 0, 32, 64 or 128 bytes, not {swizzle}")
    for distance in (leading_bytes, stride_bytes):
        if distance % DESCRIPTOR_UNIT or not 0 <= distance < DESCRIPTOR_UNIT << 14:
            raise ValueError(f"a descriptor has no distance of {distance} bytes")
    return DESCRIPTOR(
        (tile,), {"leading_bytes": leading_bytes, "stride_bytes": stride_bytes, "swizzle": swizzle}, "uint64"
    )


def _advance(_attributes: Attributes) -> Function:
    text = f"""
{INLINE} unsigned long long tile_descriptor_advance(unsigned long long descriptor, int bytes) {{
  return descriptor + (static_cast<unsigned>(bytes) >> 4);
}}
"""
    return Function("tile_descriptor_advance", text)


ADVANCE = Instruction(
    "cuda.descriptor_advance", _advance, lambda _attributes: "tile::descriptor_advance", {}, pure=True
)


def descriptor_advance(descriptor: ir.Expr, distance: ir.Expr | int) -> ir.Call:
    """The descriptor of what lies `distance` bytes further, a multiple of 16 and not negative."""
    value = E.IntImm("int32", distance) if isinstance(distance, int) else distance
    return ADVANCE((descriptor, value), dtype="uint64")


ALL = (DESCRIPTOR, ADVANCE)
