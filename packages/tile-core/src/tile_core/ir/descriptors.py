"""Descriptors: small opaque structures that host code makes of addresses and sizes and a kernel gets by value.

A driver's description of a tensor for a copy engine is one. In a program it is a variable of type `DESCRIPTOR`, bound
before the launch nests that use it; `tile.descriptor` is the value to which a backend lowers its own op.
"""

from __future__ import annotations

from collections.abc import Sequence

from tvm import ir, tirx

from tile_core.ir.ops import tile_op

SCOPE = "descriptor"
DESCRIPTOR = ir.PointerType(ir.PrimType("uint8"), SCOPE)
BYTES, ALIGNMENT = 128, 64
WORDS = 24
"""The int64 words of which a descriptor is made; their meaning is the backend's."""


def is_descriptor(var: ir.Expr) -> bool:
    """Whether `var` stands for a descriptor."""
    return isinstance(var.ty, ir.PointerType) and str(var.ty.storage_scope) == SCOPE


def descriptor(name: str, words: Sequence[ir.Expr]) -> ir.Expr:
    """The descriptor that the runtime makes of `words`, at most `WORDS` of int64; errors call it `name`."""
    assert len(words) <= WORDS
    return ir.Call(tile_op("tile.descriptor"), [ir.StringImm(name), *words], ret_ty=DESCRIPTOR)


def named(name: str) -> ir.Var:
    """A variable for a descriptor."""
    return tirx.Var(name, DESCRIPTOR)
