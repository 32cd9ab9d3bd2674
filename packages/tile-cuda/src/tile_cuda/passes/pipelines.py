"""The pipelined loops of a launch whose copies other threads can make ahead of time.

A loop of `T.Pipelined` qualifies when it has tensor copies among its statements, and when what those copies and the
loops around them need (bounds, conditions, indices) can be computed by a thread that does nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from tvm import ir
from tvm.tirx import stmt as S

from tile_core.ir import launch as launch_ir
from tile_core.ir import visit
from tile_core.ir.marks import NUM_STAGES
from tile_core.ir.views import viewed
from tile_core.layouts.swizzle import SwizzledTile
from tile_core.ops import OPS
from tile_core.ops.base import op_name, view
from tile_cuda.matrix.warp import WARP, WARPGROUP
from tile_cuda.passes.tensor_copies import TensorCopy, fits, tensor_copy, touched

TURNS = "tile.walk.turns"
"""Annotation of the loop over the tiles of a block that walks over them (`walk_tiles.py`)."""
STAGE_BYTES = 128
"""What a box begins at in shared memory: PTX ISA, "cp.async.bulk.tensor"."""
STAGED = frozenset({"tile.copy", "tile.gemm", "tile.gemm_sp", "tile.atomic", "tile.print"})
"""Ops whose operands may have a leading axis of 1, the stage; others number their axes."""
PLAIN = frozenset(
    f"tile.{name}"
    for name in (
        "atomic",
        "atomic_rmw",
        "copy",
        "fill",
        "gemm",
        "gemm_sp",
        "print",
        "print_message",
        "print_value",
        "reduce",
        "reducer_finalize",
        "reducer_init",
        "scan",
        "sync_threads",
        "transpose",
    )
)
"""Statements that mean the same among a part of a launch's threads; others may count threads or synchronise by hand."""


@dataclass(frozen=True)
class CopyGroup:
    """Copies whose tiles are first read by one statement of the loop and last read by one: they share barriers.

    One of every `unit` threads says that those have read them.
    """

    copies: tuple[TensorCopy, ...]
    first: int
    last: int
    unit: int = WARP

    @property
    def blocks(self) -> int:
        """Blocks of a cluster that fill a stage together."""
        return max(copy.parts for copy in self.copies)


@dataclass(frozen=True)
class Pipeline:
    """A loop, its copies by group, and whether another loop repeats it.

    `turn` counts its repetitions from 0 on, where that is the counter of one loop.
    """

    loop: S.For
    stages: int
    groups: tuple[CopyGroup, ...]
    is_repeated: bool
    turn: ir.Var | None = None

    @property
    def is_counted(self) -> bool:
        """Whether its iterations are counted in memory: no expression of loop counters tells their number."""
        return self.is_repeated and self.turn is None

    @property
    def copies(self) -> list[TensorCopy]:
        """All copies."""
        return [copy for group in self.groups for copy in group.copies]


@dataclass(frozen=True)
class Preload:
    """A copy that stands before the loops and is made once, or once a turn; `last` is the last statement to read it.

    `turn` counts the turns of a block that walks over tiles.
    """

    stmt: S.Stmt
    copy: TensorCopy
    last: S.Stmt
    turn: ir.Var | None = None


def statements_of(loop: S.For) -> list[S.Stmt]:
    """The statements of a loop's body."""
    return list(loop.body.seq) if isinstance(loop.body, S.SeqStmt) else [loop.body]


Suits = Callable[[TensorCopy], bool]
"""Whether a copy is one that can be made ahead."""


def find_pipelines(
    launch: launch_ir.Launch, parameters: frozenset[ir.Var], tiles: Mapping[ir.Var, SwizzledTile], suits: Suits = fits
) -> list[Pipeline]:
    """The loops of `launch` that qualify. `tiles` are the launch's swizzled tiles."""
    found: list[Pipeline] = []

    def walk(stmt: S.Stmt, repeated: bool) -> None:
        if isinstance(stmt, S.For) and int(stmt.annotations.get(NUM_STAGES, 0)) > 0 and stmt.step is None:
            pipeline = _pipeline(stmt, launch, parameters, tiles, suits, repeated=repeated)
            if pipeline is not None:
                found.append(pipeline)
                return
        if isinstance(stmt, S.While):
            return
        for child in visit.children(stmt):
            walk(child, repeated or isinstance(stmt, S.For))

    walk(launch.body, repeated=False)
    return found


def shared_among(pipeline: Pipeline, blocks: int, tiles: frozenset[ir.Var]) -> Pipeline:
    """The pipeline with every one of `tiles` loaded in parts by `blocks` blocks."""
    groups = tuple(
        replace(
            group,
            copies=tuple(replace(copy, parts=blocks) if copy.target in tiles else copy for copy in group.copies),
        )
        for group in pipeline.groups
    )
    return replace(pipeline, groups=groups)


def released_by_warpgroups(pipeline: Pipeline, overlaps: Callable[[S.Stmt], bool]) -> Pipeline:
    """The pipeline whose tiles that nothing but products of warpgroups reads are given back once a warpgroup.

    Such a product is one of all four warps, and a wait for it is a wait for what each of them reads (PTX ISA,
    "wgmma.commit_group"). `overlaps(stmt)`: whether a statement is one.
    """
    filled = {copy.target for copy in pipeline.copies}

    def reads(stmt: S.Stmt) -> frozenset[ir.Var]:
        fills = op_name(stmt) == "tile.copy" and view(stmt, OPS).region("dst").source in filled
        return frozenset() if fills or overlaps(stmt) else touched(stmt)

    read = frozenset().union(*map(reads, statements_of(pipeline.loop)))
    groups = tuple(
        replace(group, unit=WARP if any(copy.target in read for copy in group.copies) else WARPGROUP)
        for group in pipeline.groups
    )
    return replace(pipeline, groups=groups)


def is_plain(launch: launch_ir.Launch) -> bool:
    """Whether a second program can stand beside the block's: no early exits, no synchronisation by hand."""
    body = launch.body
    if any(visit.collect(body, kind) for kind in (S.Break, S.Continue)):
        return False
    for stmt in visit.collect(body, S.Evaluate):
        if isinstance(stmt.value, ir.Call) and (op_name(stmt) not in PLAIN or _names_a_barrier(stmt.value)):
            return False
    calls = visit.collect(body, ir.Call)
    return not any(str(call.op.name).startswith("tile.thread.") for call in calls if isinstance(call.op, ir.Op))


def _names_a_barrier(call: ir.Call) -> bool:
    return call.attrs is not None and "barrier_id" in call.attrs


def written(launch: launch_ir.Launch, roots: Mapping[ir.Var, ir.Var]) -> frozenset[ir.Var]:
    """Every buffer that a launch may write: by stores, by ops, behind an address, or by another name.

    `roots` are those of the whole program's views: a launch may use one that was made before it.
    """
    found = {store.buffer for store in visit.collect(launch.body, S.BufferStore)}
    for call in visit.collect(launch.body, ir.Call):
        name = str(call.op.name) if isinstance(call.op, ir.Op) else ""
        if name == "tirx.address_of":
            found |= _buffers(call.args[0])
        elif name in OPS:
            operands = zip(OPS[name].operands, call.args, strict=True)
            found |= {buffer for operand, value in operands if "w" in operand.access for buffer in _buffers(value)}
    return frozenset(found | {roots[buffer] for buffer in found if buffer in roots})


def find_preloads(
    launch: launch_ir.Launch, parameters: frozenset[ir.Var], tiles: Mapping[ir.Var, SwizzledTile], suits: Suits = fits
) -> list[Preload]:
    """The copies at the block's level, or that of its turns, into tiles that nothing else writes."""
    body, turn = launch.body, None
    if isinstance(body, S.For) and TURNS in body.annotations:
        body, turn = body.body, body.loop_var
    statements = list(body.seq) if isinstance(body, S.SeqStmt) else [body]
    viewed_tiles = _viewed(body)
    found = []
    for position, stmt in enumerate(statements):
        copy = tensor_copy(stmt, parameters)
        if copy is None or copy.target in viewed_tiles:
            continue
        copy = replace(copy, tile=tiles.get(copy.target))
        others = [at for at in range(len(statements)) if at != position and copy.target in touched(statements[at])]
        if others and others[0] > position and suits(copy) and _is_only_read(copy, statements, others):
            found.append(Preload(stmt, copy, statements[others[-1]], turn))
    return found


def _viewed(body: S.Stmt) -> frozenset[ir.Var]:
    return frozenset().union(*(viewed(declared) for declared in visit.collect(body, S.DeclBuffer)))


def _pipeline(
    loop: S.For,
    launch: launch_ir.Launch,
    parameters: frozenset[ir.Var],
    tiles: Mapping[ir.Var, SwizzledTile],
    suits: Suits,
    *,
    repeated: bool,
) -> Pipeline | None:
    statements = statements_of(loop)
    uses = [touched(stmt) for stmt in statements]
    outside = _touched_outside(launch.body, loop) | _viewed(launch.body)
    groups: dict[tuple[int, int], list[TensorCopy]] = {}
    for position, stmt in enumerate(statements):
        copy = tensor_copy(stmt, parameters)
        if copy is None or copy.target in outside:
            continue
        readers = [at for at, used in enumerate(uses) if copy.target in used and at != position]
        copy = replace(copy, tile=tiles.get(copy.target))
        if not readers or readers[0] < position or not suits(copy) or not _is_only_read(copy, statements, readers):
            continue
        if int(loop.annotations[NUM_STAGES]) > 1 and copy.bytes % STAGE_BYTES:
            continue
        groups.setdefault((readers[0], readers[-1]), []).append(copy)
    if not groups or any(isinstance(node, S.While) for node in visit.statements(loop.body)):
        return None
    found = tuple(CopyGroup(tuple(copies), first, last) for (first, last), copies in sorted(groups.items()))
    return Pipeline(loop, int(loop.annotations[NUM_STAGES]), found, repeated)


def _touched_outside(body: S.Stmt, loop: S.For) -> frozenset[ir.Var]:
    if body.same_as(loop):
        return frozenset()
    inner = visit.children(body)
    if not inner:
        return touched(body)
    heads = [touched(getattr(body, name)) for name in ("min", "extent", "condition") if hasattr(body, name)]
    return frozenset().union(*heads, *(_touched_outside(child, loop) for child in inner))


def _is_only_read(copy: TensorCopy, statements: list[S.Stmt], readers: list[int]) -> bool:
    """Whether the readers leave the tile as it is, and take it as one stage of a ring."""
    return not any(_may_change(copy.target, statements[at]) for at in readers)


def _may_change(tile: ir.Var, statement: S.Stmt) -> bool:
    """A store, an address taken, an operand that is written, an op that numbers the tile's axes."""
    stores = visit.collect(statement, S.BufferStore)
    addresses = (_buffers(address) for address in _addresses(statement))
    if any(store.buffer.same_as(tile) for store in stores) or any(tile in buffers for buffers in addresses):
        return True
    for stmt in visit.collect(statement, S.Evaluate):
        if tile not in touched(stmt):
            continue
        if op_name(stmt) not in STAGED:
            return True
        call = view(stmt, OPS)
        written_operands = (call.args[operand.name] for operand in call.op.operands if "w" in operand.access)
        if any(tile in _buffers(operand) for operand in written_operands):
            return True
    return False


def _addresses(stmt: S.Stmt) -> list[ir.Call]:
    calls = visit.collect(stmt, ir.Call)
    return [call for call in calls if isinstance(call.op, ir.Op) and str(call.op.name) == "tirx.address_of"]


def _buffers(value: ir.Expr) -> set[ir.Var]:
    if isinstance(value, ir.TensorRegion):
        return {value.source}
    return {load.source for load in visit.collect(value, ir.TensorLoad)} if isinstance(value, ir.Expr) else set()
