"""Decide which thread runs which iteration of every parallel nest, and where every fragment lives.

Nests and fragments that touch each other must agree, axis by axis. An access that reads a fragment at a nest's own loop
variables ties the fragment's axes to the nest's; a reduction ties what it keeps. Tied axes form one class, and a
connected group of nests and fragments gets one assignment of threads to its classes:

* a group without reductions whose members all have the same axes is mapped flat: vectors dealt to the threads in turn;
* the tile of a matrix product is mapped by rows and columns, so that each thread has a piece of both;
* any other group is mapped axis by axis, so that a row's threads are neighbours (one warp where it is long enough) and
  what lacks an axis is replicated along it. Axes that never meet in one member are walked by the same threads.

Vectors are as wide as every access allows. Where one axis alone is walked and a row begins at an address that only the
running kernel knows to be aligned or not (odd row lengths), units begin at the first aligned address of a row, and the
few elements before it and behind the last whole unit run one a thread.

A fragment that cannot be tied (shifted or transposed within one nest, gathered, read by a serial loop, a partial
reduction) moves to shared memory, where every thread can reach all of it: right for every program, and listed in the
report as `fragments_in_shared`; `fragment_registers` are the 32-bit registers of a thread that each of the others
takes. Nothing here needs powers of two.

The decision is `context.state["infer_layouts"]`, a `Plan`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any, ClassVar

import tvm_ffi
from tvm import ir, tirx
from tvm.tirx import stmt as S

from tile_core.ir import launch as launch_ir
from tile_core.ir import regions, visit
from tile_core.ir.analyzer import Analyzer
from tile_core.ir.views import viewed
from tile_core.layouts.digits import DigitMapping, extent_of
from tile_core.layouts.mapping import FlatMapping, Mapping, SplitMapping
from tile_core.passes.accesses import Access, lane_stride, offset, substitute, uses, vector_width
from tile_core.passes.axis_groups import group_nodes, untied
from tile_core.passes.base import PassContext
from tile_core.passes.groups import Group, Nest, Node
from tile_core.passes.layout_plan import GroupThreads, Head, NestPlan, Placement, Plan
from tile_core.passes.layout_refusals import given_to_tile, shared_instead
from tile_core.passes.matrix import MatrixUnits, Multiplier
from tile_core.passes.nests import collect_program
from tile_core.passes.thread_parts import Part, parts_of


@dataclass(frozen=True)
class InferLayouts:
    """See the module.

    Raises:
        LayoutError: a layout of the author's that cannot be kept.
    """

    name: ClassVar[str] = "infer_layouts"
    units: MatrixUnits | None = None

    def __call__(self, func: tirx.PrimFunc, context: PassContext) -> tirx.PrimFunc:
        """`func` as it is; the plan goes into the context's state."""
        plan = Plan()
        for stmt in launch_ir.launches(func.body):
            launch = launch_ir.from_stmt(stmt)
            _plan_launch(plan, launch, context.capabilities, self.units)
        context.state[self.name] = plan
        context.report.setdefault("fragments_in_shared", []).extend(str(buffer.name) for buffer in plan.shared)
        registers = {
            str(buffer.name): -(-placement.mapping.registers * int(buffer.dtype.bits) // 32)
            for buffer, placement in plan.fragments.items()
        }
        context.report["fragment_registers"] = registers | context.report.get("fragment_registers", {})
        return func


def _plan_launch(plan: Plan, launch: launch_ir.Launch, capabilities: Any, units: MatrixUnits | None) -> None:
    changing = _changing(launch)
    # Memory that has two names is addressed, so neither is in registers.
    views = visit.collect(launch.body, S.DeclBuffer)
    shared: set[ir.Var] = {declared.buffer for declared in views}.union(*map(viewed, views))
    parts, common = parts_of(launch)
    plan.shared.extend(sorted(common, key=lambda buffer: str(buffer.name)))
    named = frozenset(shared | common)
    plan.named |= named
    for part in parts:
        _plan_part(plan, part, shared | common, changing, Multiplier(units, part.threads, capabilities, named))


def _plan_part(
    plan: Plan, part: Part, shared: set[ir.Var], changing: frozenset[ir.Var], multiplier: Multiplier
) -> None:
    while True:
        program = collect_program(part.body, frozenset(shared), multiplier)
        groups, refused = group_nodes(program, frozenset(shared), part.threads)
        settled = [_Settled(group, part.threads, multiplier.capabilities, changing) for group in groups]
        refused |= {node.buffer for group in settled for node in (*group.uniform_but_spare(), *group.unscannable())}
        if not refused:
            break
        shared = shared | refused
    for group in settled:
        group.record(plan)
    for buffer, layout in program.layouts.items():
        if buffer in shared:
            raise shared_instead(given_to_tile(buffer, layout.span), untied(program, buffer))
    plan.elsewhere |= shared
    plan.shared.extend(buffer for buffer in program.fragments if buffer in shared)


def _changing(launch: launch_ir.Launch) -> frozenset[ir.Var]:
    """Variables with more than one value in the course of a block: loop counters, names of the body, threads."""
    loops = [loop.loop_var for loop in visit.collect(launch.body, S.For)]
    binds = [bind.var for bind in visit.collect(launch.body, S.Bind)]
    return frozenset([*launch.thread_vars, *loops, *binds])


class _Settled:
    """A group with its threads assigned."""

    def __init__(self, group: Group, threads: int, capabilities: Any, changing: frozenset[ir.Var]) -> None:
        self._group = group
        self._changing = changing
        self._block = threads
        self._analyzer = Analyzer()
        self._vector_bytes = capabilities.vector_bytes
        self._warp = capabilities.warp_size
        self._flat = group.is_uniform and group.digits is None and not group.is_product
        self._vector = self._width() if group.digits is None else 1
        self._head = self._find_head() if group.digits is None else None
        self._threads = None if self._flat else self._prescribed() if group.digits is not None else self._assign()

    def _width(self) -> int:
        """The widest vector that suits the accesses of every nest and leaves no thread idle for its sake."""
        laned = self._group.laned
        walked = [
            nest for nest in self._group.nests if nest.touches_memory and nest.classes and nest.classes[-1] in laned
        ]
        width = min((self._nest_width(nest) for nest in walked), default=1)
        extents = self._group.extents
        if all(isinstance(extent, int) for extent in extents):
            while width > 1 and prod(extents) < width * self._block:
                width //= 2
            while width > 1 and len(extents) > 1 and any(extents[number] % width for number in laned):
                width //= 2
        return width

    def _nest_width(self, nest: Nest) -> int:
        widest: int = self._vector_bytes
        memory = [access for access in nest.accesses if access.scope in (regions.GLOBAL, *regions.SHARED)]
        last = nest.variables[-1]
        # Shared tiles are accessed in smaller pieces where they must be; what counts is that tensors are not.
        tensors = [access for access in memory if access.scope == regions.GLOBAL]
        if any(lane_stride(access, last, self._analyzer) != 0 for access in tensors):
            memory = tensors
        if nest.is_product:
            # What strides is read one by one along K; the columns of C are vectors all the same.
            memory = [access for access in memory if lane_stride(access, last, self._analyzer) == 1]
            if not memory:
                return max(1, widest // 4)
        return vector_width(memory, last, widest, self._analyzer) if memory else 1

    def _find_head(self) -> tuple[ir.Var, Head] | None:
        """A head that makes wider vectors possible; sets the wider vector."""
        if len(self._group.extents) != 1 or not isinstance(self._group.extents[0], int) or self._group.scanned:
            return None
        moving = [access for nest in self._group.nests for access in self._moving(nest)]
        if not moving:
            return None
        widest = max(1, self._vector_bytes // max(access.itemsize for access, _var in moving))
        while widest > 1 and self._group.extents[0] < widest * self._block:
            widest //= 2
        if widest <= self._vector:
            return None
        starts = [self._start(access, var) for access, var in moving]
        candidates = [start for start in starts if start is not None and not isinstance(start, tirx.IntImm)]
        if not candidates:
            return None
        start = max(candidates, key=lambda one: sum(tvm_ffi.structural_equal(one, other) for other in candidates))
        self._vector = widest
        return tirx.Var("head", "int32"), Head(start, widest)

    def _moving(self, nest: Nest) -> list[tuple[Access, ir.Var]]:
        """The accesses of memory that advance by one element from iteration to iteration."""
        return [
            (access, nest.variables[-1])
            for access in nest.accesses
            if access.scope == regions.GLOBAL and lane_stride(access, nest.variables[-1], self._analyzer) == 1
        ]

    def _start(self, access: Access, var: ir.Var) -> ir.Expr | None:
        """The first element that an access touches, where that is the same for the whole block."""
        start = self._analyzer.simplify(substitute(offset(access), {var: tirx.IntImm("int32", 0)}))
        fixed = str(start.ty.dtype) == "int32" and not visit.collect(start, ir.TensorLoad)
        return start if fixed and not uses(start, tuple(self._changing)) else None

    def _assign(self) -> GroupThreads:
        """Threads for each axis class, the fastest first, so that neighbours in memory are neighbouring threads.

        Classes that never meet have the same threads: each of their tiles then lies in all threads of the block.
        """
        extents = tuple(int(extent) for extent in self._group.extents)
        laned = self._group.laned
        lanes = tuple(self._vector if number in laned else 1 for number in range(len(extents)))
        units = [-(-extent // lane) for extent, lane in zip(extents, lanes, strict=True)]
        slots = self._group.slots
        work = [min(units[number] for number in slot) for slot in reversed(slots)]
        counts = _product_threads(extents, self._vector, self._block) if self._group.is_product else None
        counts = counts or _deal(work, self._block, self._warp)
        digits: list[tuple[tuple[int, int], ...]] = [()] * len(extents)
        total = 1
        for slot, count in zip(slots, reversed(counts), strict=True):
            for number in slot:
                digits[number] = ((count, total),)
            total *= count
        return GroupThreads(extents, tuple(digits), lanes, total, self._block)

    def _prescribed(self) -> GroupThreads:
        """The threads that matrix instructions ask for."""
        assert self._group.digits is not None
        digits = tuple(
            tuple((digit.count, digit.stride) for digit in axis if digit.stride is not None)
            for axis in self._group.digits
        )
        lanes = tuple(axis[0].count if axis[0].lane else 1 for axis in self._group.digits)
        extents = tuple(extent_of(axis) for axis in self._group.digits)
        return GroupThreads(extents, digits, lanes, self._block, self._block)

    def uniform_but_spare(self) -> list[Node]:
        """Fragments that every thread reads as a scalar, in a group that leaves some threads without a copy."""
        if self._threads is None:
            spare = bool(self._group.extents) and self._block > 1
        else:
            spare = self._threads.used < self._block
        return [node for node in self._group.fragments if node.is_scalar_read and spare]

    def unscannable(self) -> list[Node]:
        """The fragments of a group whose scans would not run along neighbouring threads of whole or divided warps."""
        for number in self._group.scanned:
            if self._group.digits is not None or self._threads is None or number not in self._group.fastest:
                return list(self._group.fragments)
            (count, _stride) = self._threads.digits[number][0]
            if count % self._warp and (count > self._warp or count & (count - 1)):
                return list(self._group.fragments)
        return []

    def record(self, plan: Plan) -> None:
        """Write the decisions."""
        for nest in self._group.nests:
            plan.nests[nest.variables[0]] = NestPlan(self._mapping(nest), nest.classes, nest.extents, self._spare(nest))
        for node in self._group.fragments:
            plan.fragments[node.buffer] = Placement(self._mapping(node), node.classes)
            if self._threads is not None:
                plan.groups[node.buffer] = self._threads
        if self._head is not None:
            plan.heads[self._head[0]] = self._head[1]

    def _mapping(self, node: Nest | Node) -> Mapping:
        extents = tuple(self._group.extents[number] for number in node.classes)
        if self._threads is None:
            return FlatMapping(extents or (1,), self._block, self._vector, self._head_var if extents else None)
        threads = self._threads
        if self._group.digits is not None:
            return self._digit_mapping(node.classes)
        has_lanes = bool(node.classes) and node.classes[-1] in self._group.laned
        return SplitMapping(
            extents=extents,
            axis_threads=tuple(threads.digits[number][0][0] for number in node.classes),
            strides=tuple(threads.digits[number][0][1] for number in node.classes),
            used=threads.used,
            threads=self._block,
            vector=self._vector if has_lanes else 1,
            head=self._head_var if has_lanes else None,
        )

    def _digit_mapping(self, classes: tuple[int, ...]) -> DigitMapping:
        """Lanes are a vector only along the last axis; along others they are steps like the rest."""
        assert self._group.digits is not None
        axes = [self._group.digits[number] for number in classes]
        inner = (tuple(replace(digit, lane=False) for digit in axis) for axis in axes[:-1])
        return DigitMapping((*inner, *axes[-1:]), self._block, self._block)

    @property
    def _head_var(self) -> ir.Var | None:
        return None if self._head is None else self._head[0]

    def _spare(self, nest: Nest) -> tuple[tuple[int, int], ...]:
        if self._threads is None:
            return ()
        digits = self._threads.digits
        if self._group.digits is not None:
            return _gaps([digit for number in nest.classes for digit in digits[number]], self._block)
        walked = {digit for number in nest.classes for digit in digits[number]}
        others = {digit for axis in digits for digit in axis} - walked
        return tuple((stride, count) for count, stride in sorted(others) if count > 1)


def _product_threads(extents: Sequence[int], lanes: int, block: int) -> list[int]:
    """Threads along the rows and the columns of a product: the least work a thread, then the squarest piece of it.

    A piece of r rows and c columns reads r + c elements for r · c products.
    """
    rows, columns = extents
    units = -(-columns // lanes)

    def cost(along: int) -> tuple[int, int, int]:
        height = -(-rows // min(block // along, rows))
        width = -(-units // along) * lanes
        return height * width, height + width, -along

    along = min(range(1, min(block, units) + 1), key=cost)
    return [min(block // along, rows), along]


def _deal(units: list[int], block: int, warp: int) -> list[int]:
    """Threads an axis for axes of `units` pieces of work, last axis first.

    The last axis gets the whole block when the others have too little to do, else at most a warp; a power of two where
    it shares the block, so that its threads reduce by shuffles and never straddle two warps.
    """
    counts = [1] * len(units)
    if not units:
        return counts
    others = max(1, prod(units[:-1]))
    if others == 1:
        counts[-1] = min(block, units[-1]) if units[-1] < warp else block
        return counts
    wanted = max(1, block // others)
    along = min(max(_power_below(wanted), min(_power_above(units[-1]), warp)), _power_below(block))
    counts[-1] = min(along, _power_above(units[-1]))
    left = block // counts[-1]
    for axis in reversed(range(len(units) - 1)):
        counts[axis] = max(1, min(left, units[axis]))
        left //= counts[axis]
    return counts


def _gaps(digits: list[tuple[int, int]], block: int) -> tuple[tuple[int, int], ...]:
    """The digits (stride, count) of a thread's number below `block` that are not among `digits` (count, stride)."""
    found, position = [], 1
    for count, stride in sorted(digits, key=lambda digit: digit[1]):
        if count > 1:
            if stride > position:
                found.append((position, stride // position))
            position = stride * count
    if position < block:
        found.append((position, block // position))
    return tuple(found)


def _power_below(value: int) -> int:
    return 1 << (value.bit_length() - 1)


def _power_above(value: int) -> int:
    return 1 << (value - 1).bit_length()
