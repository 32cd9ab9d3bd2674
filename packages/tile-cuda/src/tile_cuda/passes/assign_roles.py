"""Give the two programs of a specialised launch their threads.

The block's own threads keep its program; a warp more is launched, of which one thread runs the copying program.
From here on a barrier of the block is one of its own threads only. Where there are two warpgroups the copying one is a
warpgroup too, since registers move between whole ones: the hardware divides them evenly at launch, and the others get
what it does not need.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from tvm import ir, tirx
from tvm.ir.prim import expr as E
from tvm.tirx import stmt as S

from tile_core.errors.ops import AnnotationError
from tile_core.ir import launch as launch_ir
from tile_core.ir import regions, visit
from tile_core.ir.descriptors import is_descriptor
from tile_core.ir.ops import tile_op
from tile_core.ir.spans import from_tvm
from tile_core.passes.base import PassContext
from tile_core.passes.insert_barriers import barrier, group_of_barrier, is_barrier
from tile_core.passes.nests import FOREIGN, is_foreign
from tile_core.passes.plan_shared_memory import ASYNCHRONOUS, size_in_bytes
from tile_core.passes.thread_scope import int32
from tile_cuda.instructions.mbarrier import fence_barrier_init, mbarrier_init
from tile_cuda.instructions.threads import FEWEST_REGISTERS, REGISTER_STEP, barrier_sync, set_max_registers
from tile_cuda.instructions.tma import prefetch_tensor_map
from tile_cuda.matrix.warp import WARP, WARPGROUP

ARRIVALS = "tile.arrivals"
"""Annotation of barriers: `full` is arrived at by the copying thread, `empty` by the block's."""
UNIT = "tile.arriving_unit"
"""Annotation of `empty` barriers: so many threads have one arrival; a warp where nothing is said."""
BLOCKS = "tile.arriving_blocks"
"""Annotation of `empty` barriers: the blocks of a cluster whose threads arrive there."""
CLUSTER_SYNC = "tile.thread.cluster_sync"
WORD_BYTES = 4
OWN_BARRIER = 1
KEEP_REGISTERS = "tile.keep_registers"
"""Attribute of a function whose author wants registers left where they are."""
PRODUCER_REGISTERS, CONSUMER_REGISTERS = "tile.producer_registers", "tile.consumer_registers"
"""Attributes of a function whose author has chosen them."""
MOVING_THREADS, MOST_REGISTERS = 256, 504
"""Registers move in blocks of so many threads, and a copying thread and two others have so many: · 128 ≤ 65536."""
REGISTERS = (40, 232)
"""The registers of a copying and of another thread where the author chooses none."""
FULL_REGISTERS, MANY_WORDS = (24, 240), 200
"""The same where a thread's arrays have more than so many words: those registers are worth a tight copying thread."""


@dataclass(frozen=True)
class AssignRoles:
    """See the module."""

    name: ClassVar[str] = "assign_roles"

    def __call__(self, func: tirx.PrimFunc, context: PassContext) -> tirx.PrimFunc:
        """The function after this pass.

        Raises:
            AnnotationError: more registers than a multiprocessor has.
        """

        def assign(loop: S.For, mutator: Any) -> S.Stmt:
            if not launch_ir.is_launch(loop):
                return mutator.default_mutate(loop)
            launch = launch_ir.from_stmt(loop)
            return _assign(launch, _registers(func, _words(launch.body))).to_stmt()

        return func.with_body(visit.mutate(func.body, (S.For, assign)), func.span)


def _words(body: S.Stmt) -> int:
    """The words of the arrays that a thread has for itself, over the whole program."""
    arrays = (alloc.buffer for alloc in visit.collect(body, S.AllocBuffer))
    return sum(-(-size_in_bytes(array) // WORD_BYTES) for array in arrays if regions.scope(array) == regions.LOCAL)


def _registers(func: tirx.PrimFunc, words: int) -> Mapping[int, tuple[int, int]]:
    """Threads of a block to the registers of a copying and of another thread; none where they stay as they are."""
    attributes = func.attrs or {}
    if KEEP_REGISTERS in attributes:
        return {}
    producer, consumer = REGISTERS if words <= MANY_WORDS else FULL_REGISTERS
    if CONSUMER_REGISTERS in attributes:
        consumer = int(attributes[CONSUMER_REGISTERS])
        producer = min(producer, MOST_REGISTERS - 2 * consumer)
    if PRODUCER_REGISTERS in attributes:
        producer = int(attributes[PRODUCER_REGISTERS])
        if CONSUMER_REGISTERS not in attributes:
            consumer = min(consumer, (MOST_REGISTERS - producer) // 2 // REGISTER_STEP * REGISTER_STEP)
    if producer + 2 * consumer > MOST_REGISTERS or min(producer, consumer) < FEWEST_REGISTERS:
        raise AnnotationError(
            f"{producer} registers of a producer and 2 times {consumer} of a consumer are not at most {MOST_REGISTERS}",
            remedy="give T.annotate_consumer_reg_alloc or T.annotate_producer_reg_dealloc a smaller number",
            span=from_tvm(func.span),
        )
    return {MOVING_THREADS: (producer, consumer)}


def _assign(launch: launch_ir.Launch, registers: Mapping[int, tuple[int, int]]) -> launch_ir.Launch:
    parts = list(launch.body.seq) if isinstance(launch.body, S.SeqStmt) else [launch.body]
    programs = [part for part in parts if is_foreign(part) and regions.constant(part.value) == 1]
    if not programs:
        return replace(launch, body=_with_groups(_plain(launch.body), launch.thread_vars[0]))
    (producer,) = programs
    own = visit.sequence([part for part in parts if not part.same_as(producer)], launch.span)
    allocations = [alloc for alloc in visit.collect(own, S.AllocBuffer) if ASYNCHRONOUS in alloc.annotations]
    thread, threads = launch.thread_vars[0], launch.threads[0]
    copying = _copying(_plain(producer.body), thread, threads, registers.get(threads))
    shares = any(int(alloc.annotations.get(BLOCKS, 1)) > 1 for alloc in allocations)
    # No block may signal another that has not made its barriers yet, or that has ended.
    together = ir.Call(tile_op(CLUSTER_SYNC), [], ret_ty="void")
    meeting = S.Evaluate(together, launch.span) if shares else barrier(launch.span)
    body = visit.sequence(
        [
            *allocations,
            S.IfThenElse(
                E.EQ(thread, int32(0)), visit.sequence([*_fetched(launch), *_initialised(allocations, threads)]), None
            ),
            meeting,
            S.IfThenElse(
                E.LT(thread, int32(threads)),
                _consuming(_with_groups(_plain(own), thread), threads, registers.get(threads)),
                copying,
                launch.span,
            ),
            *([meeting] if shares else []),
        ],
        launch.span,
    )
    more = WARP if registers.get(threads) is None else WARPGROUP
    return replace(launch, body=body, threads=(threads + more, 1, 1))


def _plain(stmt: S.Stmt) -> S.Stmt:
    """Without the marks around statements of a thread."""

    def attribute(node: S.AttrStmt, mutator: Any) -> S.Stmt:
        return mutator.mutate(node.body) if node.attr_key == FOREIGN else mutator.default_mutate(node)

    return visit.mutate(stmt, (S.AttrStmt, attribute))


def _with_groups(stmt: S.Stmt, thread: ir.Var) -> S.Stmt:
    """With barriers of neighbours as what they are: each group has one of its own."""

    def evaluate(node: S.Evaluate, _mutator: Any) -> S.Stmt:
        count = group_of_barrier(node)
        if count is None:
            return node
        return S.Evaluate(
            barrier_sync(tirx.floordiv(thread, int32(count)) + (OWN_BARRIER + 1), int32(count)), node.span
        )

    return visit.mutate(stmt, (S.Evaluate, evaluate))


def _fetched(launch: launch_ir.Launch) -> list[S.Stmt]:
    """Bring the descriptions of tensors near while the block prepares itself, for they are used at once then."""
    maps = dict.fromkeys(var for var in visit.collect(launch.body, ir.Var) if is_descriptor(var))
    return [S.Evaluate(prefetch_tensor_map(var)) for var in maps]


def _initialised(allocations: list[S.AllocBuffer], threads: int) -> list[S.Stmt]:
    stmts: list[S.Stmt] = []
    for alloc in allocations:
        if ARRIVALS in alloc.annotations:
            units = threads // int(alloc.annotations.get(UNIT, WARP)) * int(alloc.annotations.get(BLOCKS, 1))
            count = 1 if str(alloc.annotations[ARRIVALS]) == "full" else units
            for stage in range(int(alloc.buffer.shape[0])):
                place = tirx.address_of(tirx.BufferLoad(alloc.buffer, [int32(stage)]))
                stmts.append(S.Evaluate(mbarrier_init(place, int32(count))))
    return [*stmts, S.Evaluate(fence_barrier_init())]


def _consuming(own: S.Stmt, threads: int, registers: tuple[int, int] | None) -> S.Stmt:
    """The block's program without the hoisted allocations, among its own threads."""

    def allocate(node: S.AllocBuffer, _mutator: Any) -> S.Stmt:
        return visit.sequence([]) if ASYNCHRONOUS in node.annotations else node

    def evaluate(node: S.Evaluate, _mutator: Any) -> S.Stmt:
        if not is_barrier(node) or group_of_barrier(node) is not None:
            return node
        return S.Evaluate(barrier_sync(int32(OWN_BARRIER), int32(threads)), node.span)

    body = visit.mutate(own, (S.AllocBuffer, allocate), (S.Evaluate, evaluate))
    if registers is None:
        return body
    return visit.sequence([S.Evaluate(set_max_registers(registers[1], increase=True)), body])


def _copying(program: S.Stmt, thread: ir.Var, threads: int, registers: tuple[int, int] | None) -> S.Stmt:
    one = S.IfThenElse(E.EQ(thread, int32(threads)), program, None)
    if registers is None:
        return one
    return visit.sequence([S.Evaluate(set_max_registers(registers[0], increase=False)), one])
