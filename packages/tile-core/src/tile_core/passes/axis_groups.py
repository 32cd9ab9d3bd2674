"""Which axes of nests and fragments must be mapped alike: tied axes form a class, tied members a group."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any

from tvm import ir

from tile_core.ir.regions import constant
from tile_core.layouts.author import author_digits
from tile_core.layouts.digits import AxisDigits, Digit, are_alike, extent_of
from tile_core.passes.accesses import Access, accesses
from tile_core.passes.groups import Group, Nest, Node
from tile_core.passes.layout_refusals import (
    Given,
    beyond_the_block,
    disagreeing,
    given_to_nest,
    given_to_tile,
    without_code,
)
from tile_core.passes.matrix import MatrixProduct
from tile_core.passes.nests import ParallelNest, Program


class _Union:
    """Disjoint sets."""

    def __init__(self) -> None:
        self._parent: dict[Hashable, Hashable] = {}

    def find(self, item: Hashable) -> Hashable:
        parent = self._parent.setdefault(item, item)
        if parent == item:
            return item
        root = self.find(parent)
        self._parent[item] = root
        return root

    def join(self, a: Hashable, b: Hashable) -> None:
        self._parent[self.find(a)] = self.find(b)


Axis = tuple[str, int, int]
OUTER = 9
"""The rank of register digits that come after all that instructions prescribe."""


def projection(access: Access, nest: ParallelNest) -> list[int | None] | None:
    """For each axis of the fragment, the nest's axis that indexes it, `None` for an axis of extent 1 at index 0.

    `None` as a whole where the access is anything else.
    """
    positions = {var: number for number, var in enumerate(nest.variables)}
    found: list[int | None] = []
    for index, extent in zip(access.indices, access.buffer.shape, strict=True):
        size = constant(extent)
        if isinstance(index, ir.Var) and index in positions:
            axis = positions[index]
            if size is None or axis in found or not _fits(nest.extents, axis, size):
                return None
            found.append(axis)
        elif constant(index) == 0 and size == 1:
            found.append(None)
        else:
            return None
    return found


def _fits(extents: tuple[Any, ...], axis: int, size: int) -> bool:
    return all(isinstance(extent, int) for extent in extents) and extents[axis] <= size


def group_nodes(program: Program, shared: frozenset[ir.Var], threads: int) -> tuple[list[Group], frozenset[ir.Var]]:
    """The groups of a program of `threads` threads, and the fragments that cannot be tied (then there are no groups).

    Raises:
        LayoutError: a layout of the author's that cannot be kept.
    """
    return _Grouping(program, shared, threads).result()


def untied(program: Program, buffer: ir.Var) -> ParallelNest | None:
    """The first nest that accesses a fragment as no layout in registers allows."""
    for nest in program.nests:
        if any(access.buffer.same_as(buffer) and projection(access, nest) is None for access in accesses(nest.body)):
            return nest
    return None


class _Grouping:
    def __init__(self, program: Program, shared: frozenset[ir.Var], threads: int) -> None:
        self._program = program
        self._threads = threads
        self._fragments = [buffer for buffer in program.fragments if buffer not in shared]
        self._number = {buffer: number for number, buffer in enumerate(self._fragments)}
        self._accesses = [tuple(accesses(nest.body)) for nest in program.nests]
        self._axes, self._members = _Union(), _Union()
        self._refused: set[ir.Var] = set()
        self._prescribed: list[tuple[Axis, AxisDigits]] = []
        self._authored: dict[Axis, Given] = {}

    def result(self) -> tuple[list[Group], frozenset[ir.Var]]:
        for number, nest in enumerate(self._program.nests):
            self._tie_nest(number, nest)
        for product in self._program.products:
            self._tie_product(product)
        for reduction in self._program.reductions:
            self._tie_reduction(reduction.src, reduction.dst, reduction.kept)
        for scan in self._program.scans:
            self._tie_scan(scan.src, scan.dst)
        self._prescribe_authored()
        self._check_block_accesses()
        self._refused |= {buffer for buffer in self._program.viewed if buffer in self._number}
        if not self._refused:
            self._check_classes()
            self._check_prescriptions()
        if self._refused:
            return [], frozenset(self._refused)
        return [self._group(members) for members in self._components()], frozenset()

    def _tie_nest(self, number: int, nest: ParallelNest) -> None:
        for access in self._accesses[number]:
            fragment = self._number.get(access.buffer)
            if fragment is None:
                continue
            tied = projection(access, nest)
            if tied is None:
                self._refused.add(access.buffer)
                continue
            self._members.join(("nest", number), ("fragment", fragment))
            for axis, walked in enumerate(tied):
                if walked is not None:
                    self._axes.join(("nest", number, walked), ("fragment", fragment, axis))

    def _tie_reduction(self, src: ir.Var, dst: ir.Var, kept: Iterable[tuple[int, int]]) -> None:
        a, b = self._number[src], self._number[dst]
        self._members.join(("fragment", a), ("fragment", b))
        for axis in range(len(src.shape)):
            self._axes.find(("fragment", a, axis))
        for from_axis, to_axis in kept:
            self._axes.join(("fragment", a, from_axis), ("fragment", b, to_axis))

    def _tie_scan(self, src: ir.Var, dst: ir.Var) -> None:
        a, b = self._number[src], self._number[dst]
        self._members.join(("fragment", a), ("fragment", b))
        for axis in range(len(src.shape)):
            self._axes.join(("fragment", a, axis), ("fragment", b, axis))

    def _tie_product(self, product: MatrixProduct) -> None:
        """A product's fragments are mapped together, C and A with the same rows; every axis of theirs is prescribed."""
        if not product.held:
            return
        first = product.held[0].buffer
        for held in product.held:
            rank = len(held.buffer.shape)
            mine = ("fragment", self._number[held.buffer])
            self._members.join(("fragment", self._number[first]), mine)
            if held.shares_rows:
                self._axes.join(("fragment", self._number[first], len(first.shape) - 2), (*mine, rank - 2))
            self._prescribed.append(((*mine, rank - 2), held.rows))
            self._prescribed.append(((*mine, rank - 1), held.columns))

    def _prescribe_authored(self) -> None:
        """Layouts that the author gave come first: they are kept, or refused."""
        for buffer, layout in self._program.layouts.items():
            if buffer in self._number:
                extents = [constant(extent) or 0 for extent in buffer.shape]
                given = given_to_tile(buffer, layout.span)
                self._prescribe(("fragment", self._number[buffer]), layout.value.attrs, extents, given)
        for number, nest in enumerate(self._program.nests):
            if nest.layout is not None:
                extents = [int(extent) for extent in nest.layout["shape"]]
                self._prescribe(("nest", number), nest.layout, extents, given_to_nest(nest))

    def _prescribe(self, member: tuple[str, int], maps: Any, extents: list[int], given: Given) -> None:
        digits = author_digits(maps, extents)
        if digits is None:
            raise without_code(given)
        last = sum((digit.count - 1) * (digit.stride or 0) for axis in digits for digit in axis)
        if last >= self._threads:
            raise beyond_the_block(given, last, self._threads)
        fresh = [((*member, axis), own) for axis, own in enumerate(digits)]
        self._authored |= {axis: given for axis, _own in fresh}
        self._prescribed[:0] = fresh

    def _digits(self, roots: list[Hashable], extents: tuple[Any, ...]) -> tuple[AxisDigits, ...] | None:
        """What is prescribed for the classes; an axis that no instruction knows stays whole in every thread."""
        found = {self._axes.find(axis): digits for axis, digits in self._prescribed}
        if not any(root in found for root in roots):
            return None
        return tuple(found.get(root, (Digit(extent, rank=OUTER),)) for root, extent in zip(roots, extents, strict=True))

    def _check_prescriptions(self) -> None:
        """A class has one prescription and no more indices than that numbers."""
        found: dict[Hashable, AxisDigits] = {}
        for axis, digits in self._prescribed:
            root = self._axes.find(axis)
            fits = are_alike(found.setdefault(root, digits), digits) and all(
                isinstance(extent, int) and extent <= extent_of(digits) for extent in self._extents_of(root)
            )
            if fits:
                continue
            authored = {given for own, given in self._authored.items() if self._axes.find(own) == root}
            if authored:
                own = sorted(authored, key=lambda given: given.name)
                raise disagreeing(own, *self._members_of(root), by_product=self._is_prescribed(root))
            self._refused.add(self._fragments[axis[1]])

    def _is_prescribed(self, root: Hashable) -> bool:
        """Whether a matrix product says how a class is dealt."""
        held = [self._number[one.buffer] for product in self._program.products for one in product.held]
        return any(
            self._axes.find(("fragment", number, axis)) == root
            for number in held
            for axis in range(len(self._fragments[number].shape))
        )

    def _members_of(self, root: Hashable) -> tuple[list[ParallelNest], list[ir.Var]]:
        """The nests of a class, those that use several of its fragments where there are such, and its fragments."""
        fragments = [
            buffer
            for number, buffer in enumerate(self._fragments)
            if any(self._axes.find(("fragment", number, axis)) == root for axis in range(len(buffer.shape)))
        ]
        numbers = [
            number
            for number, nest in enumerate(self._program.nests)
            if any(self._axes.find(("nest", number, axis)) == root for axis in range(len(nest.extents)))
        ]
        meeting = [number for number in numbers if len(self._used(number) & set(fragments)) > 1]
        return [self._program.nests[number] for number in meeting or numbers], fragments

    def _used(self, nest: int) -> set[ir.Var]:
        return {access.buffer for access in self._accesses[nest]}

    def _extents_of(self, root: Hashable) -> list[Any]:
        nests = [
            extent
            for number, nest in enumerate(self._program.nests)
            for axis, extent in enumerate(nest.extents)
            if self._axes.find(("nest", number, axis)) == root
        ]
        return nests + [
            constant(extent)
            for number, buffer in enumerate(self._fragments)
            for axis, extent in enumerate(buffer.shape)
            if self._axes.find(("fragment", number, axis)) == root
        ]

    def _check_block_accesses(self) -> None:
        for access in self._program.block_accesses:
            if access.buffer not in self._number:
                continue
            if any(constant(extent) != 1 for extent in access.buffer.shape):
                self._refused.add(access.buffer)

    def _check_classes(self) -> None:
        """A member with two axes in one class (a diagonal, or two nests that disagree) cannot be mapped."""
        for number, nest in enumerate(self._program.nests):
            if self._repeats(("nest", number), len(nest.variables)):
                self._refuse_component(("nest", number))
        for number, buffer in enumerate(self._fragments):
            if self._repeats(("fragment", number), len(buffer.shape)):
                self._refuse_component(("fragment", number))

    def _repeats(self, member: tuple[str, int], rank: int) -> bool:
        classes = [self._axes.find((*member, axis)) for axis in range(rank)]
        return len(set(classes)) < len(classes)

    def _refuse_component(self, member: tuple[str, int]) -> None:
        root = self._members.find(member)
        self._refused |= {
            buffer for number, buffer in enumerate(self._fragments) if self._members.find(("fragment", number)) == root
        }

    def _components(self) -> list[list[tuple[str, int]]]:
        found: dict[Hashable, list[tuple[str, int]]] = {}
        members = [("nest", number) for number in range(len(self._program.nests))]
        members += [("fragment", number) for number in range(len(self._fragments))]
        for member in members:
            found.setdefault(self._members.find(member), []).append(member)
        return list(found.values())

    def _group(self, members: list[tuple[str, int]]) -> Group:
        reduced = {reduction.src for reduction in self._program.reductions}
        scalars = {access.buffer for access in self._program.block_accesses}
        roots = self._class_order(members)
        order = {root: number for number, root in enumerate(roots)}
        nests, fragments = [], []
        for kind, number in members:
            if kind == "nest":
                nest = self._program.nests[number]
                classes = tuple(order[self._axes.find(("nest", number, axis))] for axis in range(len(nest.variables)))
                nests.append(Nest(nest.variables, nest.extents, classes, self._accesses[number], nest.is_product))
            else:
                buffer = self._fragments[number]
                found = (order.get(self._axes.find(("fragment", number, axis))) for axis in range(len(buffer.shape)))
                classes = tuple(value for value in found if value is not None)
                fragments.append(Node(buffer, classes, buffer in scalars))
        extents = tuple(self._extent(root, members) for root in roots)
        return Group(
            extents=extents,
            nests=tuple(nests),
            fragments=tuple(fragments),
            has_reduction=any(node.buffer in reduced for node in fragments),
            digits=self._digits(roots, extents),
            scanned=self._scanned(members, order),
        )

    def _scanned(self, members: list[tuple[str, int]], order: dict[Hashable, int]) -> frozenset[int]:
        scans = [scan.src for scan in self._program.scans if ("fragment", self._number[scan.src]) in members]
        last = (self._axes.find(("fragment", self._number[src], len(src.shape) - 1)) for src in scans)
        return frozenset(order.get(root, -1) for root in last)

    def _member_axes(self, member: tuple[str, int]) -> list[tuple[Hashable, Any]]:
        """The classes and extents of a member's axes; a fragment's axes of extent 1 that nothing walks are left out."""
        kind, number = member
        if kind == "nest":
            extents = self._program.nests[number].extents
            return [(self._axes.find((kind, number, axis)), extent) for axis, extent in enumerate(extents)]
        shape = [constant(extent) for extent in self._fragments[number].shape]
        return [
            (self._axes.find((kind, number, axis)), extent)
            for axis, extent in enumerate(shape)
            if extent != 1 or self._is_walked((kind, number, axis))
        ]

    def _is_walked(self, axis: Axis) -> bool:
        root = self._axes.find(axis)
        return any(
            self._axes.find(("nest", number, position)) == root
            for number, nest in enumerate(self._program.nests)
            for position in range(len(nest.variables))
        )

    def _class_order(self, members: list[tuple[str, int]]) -> list[Hashable]:
        """Classes in the axis order of the members with the most axes, the rest before them."""
        order: list[Hashable] = []
        for member in sorted(members, key=lambda member: -len(self._member_axes(member))):
            fresh = [root for root, _extent in self._member_axes(member) if root not in order]
            order = fresh + order if order else fresh
        return order

    def _extent(self, root: Hashable, members: list[tuple[str, int]]) -> Any:
        extents = [extent for member in members for at, extent in self._member_axes(member) if at == root]
        return max(extents) if all(isinstance(extent, int) for extent in extents) else extents[0]
