"""Where the memory of a buffer is touched: under its own name, behind an address, or under another name.

A pass that hands a tensor to something asynchronous, or reads it later than the program says, has to know every use.
Comparing names finds those under the buffer's own only: a view (`DeclBuffer`) or a pointer reaches the same memory. So
a use is whatever mentions the buffer, and a mention that is neither a load, a store nor an operand counts as another
name.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tvm import ir
from tvm.tirx import stmt as S

from tile_core.ir import launch as launch_ir
from tile_core.ir import visit
from tile_core.ir.descriptors import is_descriptor
from tile_core.ir.views import viewed


@dataclass(frozen=True)
class Uses:
    """How often a program does what with the memory of a buffer."""

    loads: int = 0
    """Elements that expressions read."""
    stores: int = 0
    """Elements that statements write."""
    operands: int = 0
    """Regions among the arguments of ops."""
    addresses: int = 0
    """Addresses of elements: those that an op works on, such as an atomic one, and those that anything else gets."""
    names: int = 0
    """Other names for the memory: views and pointers to all of it; one more where the buffer is a view itself."""


def uses(buffer: ir.Var, body: S.Stmt, program: S.Stmt | None = None) -> Uses:
    """The uses of `buffer` under `body`.

    Args:
        buffer: a tensor or a tile.
        body: a launch, or anything else.
        program: with a launch as `body`, all of the function, for names that it defines outside of launches.

    Example:
        only_copied_once = uses(tensor, launch.body, func.body) == Uses(operands=1)
    """
    addresses = sum(_is_of(call.args[0], buffer) for call in visit.collect(body, ir.Call) if _is_address(call))
    loads = sum(_is_of(load, buffer) for load in visit.collect(body, ir.TensorLoad))
    operands = sum(_is_of(region, buffer) for region in visit.collect(body, ir.TensorRegion))
    stores = sum(store.buffer.same_as(buffer) for store in visit.collect(body, S.BufferStore))
    notes = sum(note.node.same_as(buffer) for note in visit.collect(body, S.AttrStmt) if isinstance(note.node, ir.Var))
    allocations = sum(alloc.buffer.same_as(buffer) for alloc in visit.collect(body, S.AllocBuffer))
    names = _mentions(buffer, body) - loads - operands - stores - notes - allocations
    outside = 0 if program is None else _names_outside(buffer, program)
    return Uses(loads - addresses, stores, operands, addresses, names + outside)


def _is_of(access: Any, buffer: ir.Var) -> bool:
    return isinstance(access, ir.TensorLoad | ir.TensorRegion) and bool(access.source.same_as(buffer))


def _is_address(call: ir.Call) -> bool:
    return isinstance(call.op, ir.Op) and str(call.op.name) == "tirx.address_of"


def _mentions(buffer: ir.Var, root: Any) -> int:
    return sum(var.same_as(buffer) for var in visit.collect(root, ir.Var))


def _names_outside(buffer: ir.Var, program: S.Stmt) -> int:
    """Views of a buffer, and values made of its address, that are defined outside of launches."""
    if launch_ir.is_launch(program):
        return 0
    found = sum(_names_outside(buffer, child) for child in visit.children(program))
    if isinstance(program, S.DeclBuffer):
        found += program.buffer.same_as(buffer) + sum(var.same_as(buffer) for var in viewed(program))
    elif isinstance(program, S.Bind) and not is_descriptor(program.var):
        found += _mentions(buffer, program.value)
    return found
