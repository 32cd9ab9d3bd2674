"""Where an access to memory moves as a loop variable moves: strides, contiguity, provable alignment."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import tvm_ffi
from tvm import ir, tirx
from tvm.tirx import stmt as S

from tile_core.ir import regions, visit
from tile_core.ir.analyzer import Analyzer
from tile_core.ir.regions import constant


@dataclass(frozen=True)
class Access:
    """One load or store of a buffer."""

    buffer: ir.Var
    indices: tuple[ir.Expr, ...]
    is_store: bool

    @property
    def scope(self) -> str:
        """The buffer's storage scope."""
        return regions.scope(self.buffer)

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return (int(self.buffer.dtype.bits) + 7) // 8


def accesses(root: S.Stmt | ir.Expr) -> list[Access]:
    """Every load and store under `root`, in program order."""
    found: list[Access] = []
    visit.walk(
        root,
        (S.BufferStore, lambda node: found.append(Access(node.buffer, tuple(node.indices), True))),
        (ir.TensorLoad, lambda node: found.append(Access(node.source, tuple(node.indices), False))),
    )
    return found


_WIDTHS = (16, 8, 4, 2)
"""Lanes of a vector."""


def substitute(root: object, values: dict[ir.Var, ir.Expr]) -> object:
    """`root` with variables replaced."""
    return visit.mutate(root, (ir.Var, lambda var, _mutator: values.get(var, var)))


def strides(buffer: ir.Var) -> list[ir.Expr]:
    """Elements between neighbours along each axis; row-major where the buffer states none."""
    declared = list(buffer.strides or [])
    if declared:
        return declared
    step: ir.Expr = tirx.IntImm("int32", 1)
    found: list[ir.Expr] = []
    for extent in reversed(list(buffer.shape)):
        found.append(step)
        step = step * extent
    return found[::-1]


def offset(access: Access) -> ir.Expr:
    """The flat element offset of an access."""
    total: ir.Expr = tirx.IntImm("int32", 0)
    for index, stride in zip(access.indices, strides(access.buffer), strict=True):
        total = total + index * stride
    return total


def lane_stride(access: Access, var: ir.Var, analyzer: Analyzer) -> int | None:
    """How many elements the access moves when `var` grows by one; `None` where that is no constant."""
    flat = offset(access)
    moved = substitute(flat, {var: var + 1})
    return constant(analyzer.simplify(moved - flat))


def aligned_width(access: Access, var: ir.Var, widest: int, analyzer: Analyzer) -> int:
    """The widest power of two up to `widest` whose multiple the offset is wherever `var` is one."""
    width = widest
    while width > 1:
        unit = tirx.Var("unit", var.ty)
        flat = substitute(offset(access), {var: unit * width})
        facts = analyzer.modular_set(analyzer.simplify(flat))
        if int(facts.coeff) % width == 0 and int(facts.base) % width == 0:
            return width
        width //= 2
    return 1


def sharing(access: Access, var: ir.Var, width: int, analyzer: Analyzer) -> int:
    """How many neighbours among `width` values of `var`, from a multiple of it on, share an element, in order.

    `width` where all access the same one; 1 where they do not share so.
    """
    unit = tirx.Var("unit", var.ty)
    flat = offset(access)
    places = [substitute(flat, {var: unit * width + lane}) for lane in range(width)]
    moved = [constant(analyzer.simplify(place - places[0])) for place in places]  # type: ignore[operator]
    shared_by = moved.index(1) if 1 in moved else width
    fits = width % shared_by == 0 and moved == [lane // shared_by for lane in range(width)]
    return shared_by if fits else 1


def vector_width(found: Iterable[Access], var: ir.Var, vector_bytes: int, analyzer: Analyzer) -> int:
    """The widest vector along `var` in which every access is whole, aligned vectors or does not move at all.

    A load may also give one element to several neighbours, as of numbers that are packed in words.

    1 where an access strides or gathers, or where nothing moves along `var`.
    """
    widths: list[int] = []
    for access in found:
        stride = lane_stride(access, var, analyzer)
        if stride == 0:
            continue
        if stride is None and not access.is_store:
            shared = [width for width in _WIDTHS if sharing(access, var, width, analyzer) > 1]
            if not shared:
                return 1
            widths.append(shared[0])
            continue
        if stride != 1:
            return 1
        widths.append(aligned_width(access, var, max(1, vector_bytes // access.itemsize), analyzer))
    return min(widths, default=1)


def same_place(a: Access, b: Access) -> bool:
    """Whether two accesses of one buffer are provably the same element."""
    return len(a.indices) == len(b.indices) and all(
        tvm_ffi.structural_equal(left, right) for left, right in zip(a.indices, b.indices, strict=True)
    )


def uses(root: object, variables: Sequence[ir.Var]) -> bool:
    """Whether one of `variables` occurs under `root`."""
    wanted = set(variables)
    return any(var in wanted for var in visit.collect(root, ir.Var))
