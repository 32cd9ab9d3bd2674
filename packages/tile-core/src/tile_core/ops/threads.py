"""Barriers and exchanges between the threads of a block.

A block that runs as one program is always in step with itself, and its copies are complete when they return, so
`tile.sync_threads` and `tile.sync_warp` lower to nothing there. What exchanges values between threads has no such
meaning: `passes/check_semantics.py` refuses `NEEDS_THREADS` on targets whose blocks have no threads.

Where blocks have threads, an op that every thread carries out is lowered to a call named `tile.thread.<op>`
(`thread_call`), which a printer spells and no pass gives to one thread alone. A dialect's own instructions, which the
author writes for every thread, are calls with the attribute `INSTRUCTION`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tvm import ir
from tvm.tirx import stmt as S

from tile_core.errors.ops import OpArgumentError
from tile_core.errors.passes import UnsupportedOnTargetError
from tile_core.ir.ops import tile_op
from tile_core.ir.visit import collect, sequence
from tile_core.ops.base import LowerContext, OpCall, TileOp

if TYPE_CHECKING:
    import numpy as np

    from tile_core.ir.launch import Launch

BLOCK_WIDE = frozenset(f"tile.syncthreads_{kind}" for kind in ("and", "count", "or"))
"""Exchanges of the whole block: barriers, whose result is the same for every thread."""
SHUFFLES = frozenset(f"tile.shfl_{kind}" for kind in ("down", "sync", "up", "xor"))
"""Exchanges of a value within groups of lanes: of the value, a lane, the lanes of a group, and a mask."""
WARP_WIDE = SHUFFLES | frozenset(
    f"tile.{name}"
    for name in (
        "activemask",
        "all_sync",
        "any_sync",
        "ballot_sync",
        "match_all_sync",
        "match_any_sync",
        "warp_reduce_bitand",
        "warp_reduce_bitor",
        "warp_reduce_max",
        "warp_reduce_min",
        "warp_reduce_sum",
    )
)
"""Exchanges of a warp, whose result may differ from thread to thread."""
NEEDS_THREADS = BLOCK_WIDE | WARP_WIDE
ATOMIC_UPDATES = frozenset({"tile.atomic_rmw"})
"""Operations on memory whose result depends on who came before."""
EXTERN_CALLS = frozenset({"tirx.call_extern", "tirx.call_pure_extern"})
"""Calls of functions that the compiler does not know."""
THREAD_PREFIX = "tile.thread."
INSTRUCTION = "instruction"
"""Attribute of a call that is an instruction of the hardware, written by the author for each thread."""
NAMED_BARRIERS = 16
"""Numbers of barriers that a block has; 0 is the barrier of all threads."""


def called(node: Any) -> str:
    """The name of the operator that an expression or an evaluated statement calls, empty for anything else."""
    call = node.value if isinstance(node, S.Evaluate) else node
    return str(call.op.name) if isinstance(call, ir.Call) and isinstance(call.op, ir.Op) else ""


def exchanges(root: Any, names: frozenset[str] = NEEDS_THREADS) -> bool:
    """Whether `root` holds an exchange of those in `names`."""
    return any(called(call) in names for call in collect(root, ir.Call))


def tells_threads_apart(launch: Launch) -> bool:
    """Whether the body of a launch asks for a thread index or exchanges values between threads.

    Such a body is the program of one thread. Any other is the program of a block, whatever runs it.
    """
    used = set(collect(launch.body, ir.Var))
    if any(var in used for var in launch.thread_vars) or exchanges(launch.body):
        return True
    return any(map(is_instruction, collect(launch.body, ir.Call)))


def is_instruction(node: Any) -> bool:
    """Whether a call, or a statement that is one, is an instruction of the hardware."""
    call = node.value if isinstance(node, S.Evaluate) else node
    return isinstance(call, ir.Call) and call.attrs is not None and INSTRUCTION in call.attrs


def behind_addresses(stmt: S.Stmt) -> list[ir.Var]:
    """The buffers whose addresses the call that `stmt` is gets, and whose elements it therefore may change."""
    if not isinstance(stmt, S.Evaluate) or not isinstance(stmt.value, ir.Call):
        return []
    addresses = (each for each in stmt.value.args if called(each) == "tirx.address_of")
    return [load.source for address in addresses for load in collect(address, ir.TensorLoad)]


def is_for_every_thread(stmt: S.Stmt) -> bool:
    """Whether a statement is one that every thread carries out, even though no thread index stands in it."""
    name = called(stmt)
    return name.startswith(THREAD_PREFIX) or name in EXTERN_CALLS or is_instruction(stmt)


def thread_call(call: OpCall, name: str | None = None) -> S.Stmt:
    """What `call` is lowered to for blocks with threads: `tile.thread.<name>`, by default the op's own name."""
    short = name or call.op.name.removeprefix("tile.")
    arguments = [call.args[operand.name] for operand in call.op.operands]
    operator = tile_op(f"{THREAD_PREFIX}{short}")
    return S.Evaluate(ir.Call(operator, arguments, attrs=dict(call.attrs), ret_ty="void", span=call.span), call.span)


def _check(_call: OpCall) -> None:
    """A barrier has no operands."""


def _count(call: OpCall, name: str) -> int | None:
    """An attribute that is a number known while tracing; `None` where it is left out."""
    value = call.attrs.get(name)
    found = value if value is None or isinstance(value, int) else getattr(value, "value", value)
    if found is not None and not isinstance(found, int):
        raise OpArgumentError(f"{name}={value}", remedy="give an int known while tracing")
    return found


def _check_named(call: OpCall) -> None:
    number, count = _count(call, "barrier_id"), _count(call, "arrive_count")
    if number is not None and not 0 <= number < NAMED_BARRIERS:
        raise OpArgumentError(
            f"barrier_id={number}", remedy=f"a block has the barriers 0 to {NAMED_BARRIERS - 1}; 0 is the block's"
        )
    if count is None:
        return
    if number is None:
        raise OpArgumentError(f"arrive_count={count} without barrier_id", remedy="name the barrier that counts")
    if count < 1:
        raise OpArgumentError(f"arrive_count={count}", remedy="give how many threads arrive, those that wait included")


def _reference(_call: OpCall, _operands: Mapping[str, np.ndarray]) -> None:
    """One program is in step with itself."""


def _lower(call: OpCall, _context: LowerContext) -> S.Stmt:
    return sequence([], call.span)


SYNC_THREADS = TileOp("tile.sync_threads", (), _check_named, _reference, _lower)
NAMED_BARRIER_ARRIVE = TileOp("tile.named_barrier_arrive", (), _check_named, _reference, None)
SYNC_WARP = TileOp("tile.sync_warp", (), _check, _reference, _lower)
COMMIT_GROUP = TileOp("tile.commit_group", (), _check, _reference, _lower)
WAIT_GROUP = TileOp("tile.wait_group", (), _check, _reference, _lower)


def _no_reference(_call: OpCall, _operands: Mapping[str, np.ndarray]) -> None:
    raise UnsupportedOnTargetError(
        "the interpreter runs the blocks of a grid one after the other: none can wait for all",
        remedy='run it on a GPU or with execution="emulate", or make one launch of each part',
    )


SYNC_GRID = TileOp("tile.sync_grid", (), _check, _no_reference, None)
GRID_BARRIER = f"{THREAD_PREFIX}sync_grid"
"""What `tile.sync_grid` is lowered to where all blocks of a grid run at once."""
