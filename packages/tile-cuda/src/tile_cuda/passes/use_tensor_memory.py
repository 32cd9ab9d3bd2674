"""Products of fragments whose results tensor memory can hold are made there (sm_100 and its family).

A fragment that is C of a `tile.gemm` gets a tile of tensor memory beside it. The product works on the tile; a copy
brings it to the fragment where something else first reads that, and back where something else has written it and the
next product adds to it. So a loop of products alone copies nothing, and neither does a first product that may clear a
fragment which nothing has named before: there is no value to bring. Where a product decides while it runs whether it
adds, what it clears is not copied: that may be written in part only. An A that is a fragment is copied to tensor
memory for each product. What no instruction covers stays a fragment, and is multiplied by warps.

Runs on tile ops, before copies are planned. Launches whose author places barriers or roles by hand name tensor memory
themselves, and are left as they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import prod
from typing import Any, ClassVar, Literal

from tvm import ir, tirx
from tvm.ir.prim import expr as E
from tvm.tirx import stmt as S

from tile_core.ir import launch as launch_ir
from tile_core.ir import regions, visit
from tile_core.ir.views import viewed
from tile_core.ops import OPS
from tile_core.ops.base import OpCall, op_name, view
from tile_core.ops.copy import COPY, LAYOUT
from tile_core.ops.products import IN_FLIGHT
from tile_core.passes import rebuild
from tile_core.passes.accesses import substitute
from tile_core.passes.base import PassContext
from tile_core.passes.ranges import reads_memory
from tile_cuda.instructions.tcgen05 import COLUMNS
from tile_cuda.matrix.product import Refusal, sizes
from tile_cuda.matrix.tcgen05 import HALF, LANES, MOST_THREADS, TENSOR_MEMORY, in_tensor_memory, tensor_product
from tile_cuda.matrix.units import TENSOR_MEMORY_OPTION, TensorCores
from tile_cuda.passes.lower_asynchrony import is_asynchronous
from tile_cuda.passes.lower_tensor_memory import dealt
from tile_cuda.passes.pipelines import is_plain, statements_of
from tile_cuda.passes.place_tensor_memory import columns_of
from tile_cuda.passes.tensor_copies import touched

Where = Literal["fragment", "memory", "both"]


@dataclass(frozen=True)
class UseTensorMemory:
    """`tile.tensor_memory` (default true) switches it off."""

    name: ClassVar[str] = "use_tensor_memory"
    options: ClassVar[tuple[str, ...]] = (TENSOR_MEMORY_OPTION,)
    units: TensorCores

    def __call__(self, func: tirx.PrimFunc, context: PassContext) -> tirx.PrimFunc:
        """The function after this pass."""
        if not self.units.memories or not context.options.get(TENSOR_MEMORY_OPTION, True):
            return func

        def use(loop: S.For, mutator: Any) -> S.Stmt:
            if not launch_ir.is_launch(loop):
                return mutator.default_mutate(loop)
            launch = launch_ir.from_stmt(loop)
            tiles = _tiles(launch)
            return replace(launch, body=_Rewriter(tiles).result(launch.body)).to_stmt() if tiles else loop

        return func.with_body(visit.mutate(func.body, (S.For, use)), func.span)


def _call(stmt: S.Stmt) -> OpCall:
    return view(stmt, OPS)


def _products(body: S.Stmt) -> Iterator[OpCall]:
    return (_call(stmt) for stmt in visit.collect(body, S.Evaluate) if op_name(stmt) == "tile.gemm")


def _tiles(launch: launch_ir.Launch) -> dict[ir.Var, ir.Var]:
    """Fragments to their tiles of tensor memory."""
    threads = prod(launch.threads)
    if launch.threads[1:] != (1, 1) or threads % LANES or threads > MOST_THREADS:
        return {}
    if is_asynchronous(launch.body) or not is_plain(launch) or not next(_products(launch.body), None):
        return {}
    if any(in_tensor_memory(alloc.buffer) for alloc in visit.collect(launch.body, S.AllocBuffer)):
        return {}
    views = visit.collect(launch.body, S.DeclBuffer)
    others = frozenset(declared.buffer for declared in views).union(*map(viewed, views))
    others |= {attr.node for attr in visit.collect(launch.body, S.AttrStmt) if attr.attr_key == LAYOUT}
    found: dict[ir.Var, ir.Var] = {}
    for call in _products(launch.body):
        for side in "ca":
            buffer = call.region(side).source
            if _is_fragment(call, side) and buffer not in found:
                found[buffer] = _tile_of(buffer)
    return _that_fit([*_products(launch.body)], found, set(others), threads)


def _that_fit(
    calls: list[OpCall], tiles: Mapping[ir.Var, ir.Var], refused: set[ir.Var], threads: int
) -> dict[ir.Var, ir.Var]:
    """The tiles of fragments all of whose products are made there; none where there are not enough columns."""
    while True:
        made = [call for call in calls if _is_made(call, tiles, threads) and not refused & _fragments(call)]
        left = [call for call in calls if call not in made]
        results = {call.region("c").source for call in left} - refused
        if left and not results:
            # Warps that make the others hold rows another way, and 64 rows are theirs as well.
            results = {call.region("c").source for call in made if sizes(call)[0] == HALF}
        if not results:
            break
        refused |= results
    used = {buffer for call in made for buffer in _fragments(call)}
    kept = {buffer: tile for buffer, tile in tiles.items() if buffer in used}
    return kept if sum(map(columns_of, kept.values())) <= COLUMNS else {}


def _fragments(call: OpCall) -> set[ir.Var]:
    """The fragments among C and A."""
    return {call.region(side).source for side in "ca" if regions.scope(call.region(side).source) == regions.FRAGMENT}


def _is_fragment(call: OpCall, side: str) -> bool:
    region = call.region(side)
    return regions.scope(region.source) == regions.FRAGMENT and regions.is_whole(region)


def _tile_of(fragment: ir.Var) -> ir.Var:
    shape = list(fragment.shape)
    return tirx.decl_buffer(shape, str(fragment.dtype), f"{fragment.name}_tmem", scope=TENSOR_MEMORY)


def _is_made(call: OpCall, tiles: Mapping[ir.Var, ir.Var], threads: int) -> bool:
    if IN_FLIGHT in call.attrs or not _is_fragment(call, "c"):
        return False
    used = [tiles.get(buffer) for buffer in _fragments(call)]
    if any(tile is None or len(tile.shape) != 2 or dealt(tile, threads) is None for tile in used):
        return False
    return not isinstance(tensor_product(_moved(call, tiles)), Refusal)


def _moved(call: OpCall, tiles: Mapping[ir.Var, ir.Var]) -> OpCall:
    """The call on tiles of tensor memory."""
    args = {
        name: regions.whole(tiles[value.source])
        if isinstance(value, ir.TensorRegion) and value.source in tiles
        else value
        for name, value in call.args.items()
    }
    return replace(call, args=args)


class _Rewriter:
    """Walks a body in order; `_where` says which of a fragment and its tile holds the value."""

    def __init__(self, tiles: Mapping[ir.Var, ir.Var]) -> None:
        self._tiles = tiles
        self._where: dict[ir.Var, Where] = dict.fromkeys(tiles, "fragment")
        self._unnamed = set(tiles)

    def result(self, body: S.Stmt) -> S.Stmt:
        allocations = [S.AllocBuffer(tile, span=body.span) for tile in self._tiles.values()]
        return visit.sequence([*allocations, self._stmt(body)], body.span)

    def _stmt(self, stmt: S.Stmt) -> S.Stmt:
        if isinstance(stmt, S.SeqStmt):
            return visit.sequence([self._stmt(part) for part in stmt.seq], stmt.span)
        if self._is_product(stmt):
            return self._product(_call(stmt))
        if any(map(self._is_product, visit.collect(stmt, S.Evaluate))):
            return self._nested(stmt)
        if isinstance(stmt, S.AllocBuffer):
            return stmt
        return self._other(stmt)

    def _is_product(self, stmt: S.Stmt) -> bool:
        return op_name(stmt) == "tile.gemm" and _call(stmt).region("c").source in self._tiles

    def _product(self, call: OpCall) -> S.Stmt:
        c, a = call.region("c").source, call.region("a").source
        self._begin(call)
        clear, before = call.args["clear_accum"], list[S.Stmt]()
        if not regions.constant(clear) and self._where[c] == "fragment":
            if reads_memory(clear):
                flag = tirx.Var("clears", clear.ty)
                before.append(S.Bind(flag, clear, call.span))
                call = replace(call, args={**call.args, "clear_accum": flag})
            before += _unless(call.args["clear_accum"], self._at("memory", c, call.span))
        if a in self._tiles:
            before += self._at("memory", a, call.span)
        self._where[c] = "memory"
        self._unnamed -= {c, a}
        return visit.sequence([*before, _moved(call, self._tiles).to_stmt()], call.span)

    def _begin(self, call: OpCall) -> None:
        """Where a product that may clear is the first to name its result, there is no value that it could miss."""
        c = call.region("c").source
        if c in self._unnamed and regions.constant(call.args["clear_accum"]) is None:
            self._where[c] = "both"

    def _other(self, stmt: S.Stmt) -> S.Stmt:
        """A statement on fragments: those that it names hold their values before; what it writes is there only."""
        used = [fragment for fragment in self._tiles if fragment in touched(stmt)]
        before = [
            copy for fragment in used if not _overwrites(stmt, fragment) for copy in self._to_fragment(fragment, stmt)
        ]
        for fragment in used:
            self._where[fragment] = "fragment" if fragment in _written(stmt) else self._where[fragment]
        self._unnamed.difference_update(used)
        return visit.sequence([*before, stmt], stmt.span)

    def _to_fragment(self, fragment: ir.Var, stmt: S.Stmt) -> list[S.Stmt]:
        return self._at("fragment", fragment, stmt.span)

    def _at(self, where: Where, fragment: ir.Var, span: ir.Span | None) -> list[S.Stmt]:
        """The copy after which the value is `where`; none if it is there already."""
        if self._where[fragment] in (where, "both"):
            return []
        self._where[fragment] = "both"
        pair = fragment, self._tiles[fragment]
        source, target = pair if where == "memory" else pair[::-1]
        sides = {"src": regions.whole(source), "dst": regions.whole(target)}
        return [COPY.call(sides, span=span).to_stmt()]

    def _nested(self, stmt: Any) -> S.Stmt:
        """A loop or branch around products: values are at its ends where its body wants them first."""
        used = [fragment for fragment in self._tiles if fragment in touched(stmt)]
        wanted: dict[ir.Var, Where] = dict.fromkeys(used, "fragment")
        before: list[S.Stmt] = []
        for call in filter(None, (self._added_first(stmt, fragment) for fragment in used)):
            self._begin(call)
            result = call.region("c").source
            wanted[result] = "memory"
            before += _unless(_clears_first(stmt, call), self._at("memory", result, stmt.span))
        self._unnamed.difference_update(used)
        before += self._moved_to(wanted, stmt.span)
        if isinstance(stmt, S.IfThenElse):
            then = self._from(wanted, stmt.then_case)
            otherwise = None if stmt.else_case is None else self._from(wanted, stmt.else_case)
            found: S.Stmt = S.IfThenElse(stmt.condition, then, otherwise, stmt.span)
        elif isinstance(stmt, S.For):
            found = rebuild.loop(stmt, body=self._from(wanted, stmt.body))
        elif isinstance(stmt, S.While):
            found = S.While(stmt.condition, self._from(wanted, stmt.body), stmt.span)
        else:
            found = S.AttrStmt(stmt.node, stmt.attr_key, stmt.value, self._from(wanted, stmt.body), stmt.span)
        self._where.update(wanted)
        return visit.sequence([*before, found], stmt.span)

    def _moved_to(self, wanted: Mapping[ir.Var, Where], span: ir.Span | None) -> list[S.Stmt]:
        return [copy for fragment, where in wanted.items() for copy in self._at(where, fragment, span)]

    def _from(self, wanted: Mapping[ir.Var, Where], body: S.Stmt) -> S.Stmt:
        self._where.update(wanted)
        done = self._stmt(body)
        return visit.sequence([done, *self._moved_to(wanted, body.span)], body.span)

    def _added_first(self, stmt: S.Stmt, fragment: ir.Var) -> OpCall | None:
        """The first statement under `stmt` that names a fragment, if it is a product that adds to it."""
        first = next((leaf for leaf in _leaves(stmt, self._is_product) if fragment in touched(leaf)), None)
        if first is None or not self._is_product(first):
            return None
        call = _call(first)
        adds = call.region("c").source.same_as(fragment) and not regions.constant(call.args["clear_accum"])
        return call if adds else None


def _unless(clears: ir.Expr | None, copies: list[S.Stmt]) -> list[S.Stmt]:
    """The copies of what a product adds to, where it does not clear that."""
    if clears is None or regions.constant(clears) is not None:
        return copies
    return [S.IfThenElse(E.Not(clears), copy, None, copy.span) for copy in copies]


def _clears_first(stmt: S.Stmt, call: OpCall) -> ir.Expr | None:
    """Whether a product clears its result where loops come to it first; `None` where that is not known before them."""
    result, values = call.region("c").source, dict[ir.Var, ir.Expr]()
    known: ir.Expr = tirx.IntImm("bool", 1)
    inside = {bind.var for bind in visit.collect(stmt, S.Bind)}
    while isinstance(stmt, S.For):
        known = E.And(known, E.GT(substitute(stmt.extent, values), E.IntImm(stmt.extent.ty, 0)))
        values[stmt.loop_var] = substitute(stmt.min, values)
        stmt = next(one for one in statements_of(stmt) if result in touched(one))
    if not values or op_name(stmt) != "tile.gemm":
        return None
    clears = E.And(known, substitute(call.args["clear_accum"], values))
    return None if reads_memory(clears) or inside & set(visit.collect(clears, ir.Var)) else clears


def _leaves(stmt: S.Stmt, is_product: Any) -> Iterator[S.Stmt]:
    """Statements in order; one without products is a whole."""
    if not any(map(is_product, visit.collect(stmt, S.Evaluate))) or is_product(stmt):
        yield stmt
        return
    for child in visit.children(stmt):
        yield from _leaves(child, is_product)


def _written(stmt: S.Stmt) -> frozenset[ir.Var]:
    """The buffers that a statement writes."""
    found = {store.buffer for store in visit.collect(stmt, S.BufferStore)}
    for each in visit.collect(stmt, S.Evaluate):
        if op_name(each) not in OPS:
            found |= touched(each)
            continue
        call = view(each, OPS)
        for operand in call.op.operands:
            value = call.args[operand.name]
            if "w" in operand.access and isinstance(value, ir.TensorRegion):
                found.add(value.source)
    return frozenset(found)


def _overwrites(stmt: S.Stmt, fragment: ir.Var) -> bool:
    """Whether a statement is an op that only writes a fragment, all of it."""
    if op_name(stmt) not in ("tile.fill", "tile.copy"):
        return False
    call = _call(stmt)
    target = call.region("dst")
    reads = [value for name, value in call.args.items() if name != "dst" and isinstance(value, ir.TensorRegion)]
    return (
        target.source.same_as(fragment)
        and regions.is_whole(target)
        and not any(value.source.same_as(fragment) for value in reads)
    )
