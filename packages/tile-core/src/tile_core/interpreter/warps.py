"""Exchanges between the threads of a block or warp, on arrays with one entry a thread.

A warp is `WARP_SIZE` consecutive threads. A thread that takes no part, because a condition does not hold for it, has no
value to give: reading from it is undefined on hardware and refused here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from tvm import ir

from tile_core.errors.interpreter import BarrierMisuseError
from tile_core.interpreter.arithmetic import Value, rounded
from tile_core.interpreter.scope import Evaluator, Scope
from tile_core.interpreter.space import Array
from tile_core.interpreter.state import State
from tile_core.interpreter.target import WARP_SIZE
from tile_core.interpreter.values import dtype_of, no_meaning
from tile_core.ops.threads import NEEDS_THREADS

Exchange = Callable[[list[Array], Array], tuple[str, Any]]
"""Operands and the threads that take part, to what is wrong (nothing, usually) and the result."""


def is_exchange(name: str) -> bool:
    """Whether an operator exchanges values between threads."""
    return name in NEEDS_THREADS


def compile_exchange(call: ir.Call, scope: Scope) -> Evaluator:
    """The function that carries out an exchange.

    Raises:
        NoReferenceMeaningError: inside of `T.Parallel`, whose iterations are no threads.
    """
    name = str(call.op.name)
    if not scope.threads:
        raise no_meaning(f"{name.removeprefix('tile.')} inside of T.Parallel", scope.span)
    operands = [scope.expr(argument) for argument in call.args]
    exchange = _exchange(name.removeprefix("tile."), call)
    place, span = scope.place, scope.span

    def evaluate(state: State) -> Value:
        values = [np.array(state.space.spread(operand(state))) for operand in operands]
        problem, result = exchange(values, state.active())
        if problem:
            raise BarrierMisuseError(
                f"{problem}{place.describe(state)}", remedy="let all threads of the warp come here together", span=span
            )
        return result

    return evaluate


def _exchange(name: str, call: ir.Call) -> Exchange:
    if name.startswith("shfl_"):
        return lambda values, active: _shuffle(name, values, active)
    if name.startswith("warp_reduce_"):
        combine = rounded(_REDUCTIONS[name.removeprefix("warp_reduce_")], dtype_of(call))
        return lambda values, active: _reduce(combine, values[0], active)
    if name.startswith("match_"):
        return lambda values, active: ("", _match(name, values, active))
    if name.startswith("syncthreads_"):
        return lambda values, active: _block(name.removeprefix("syncthreads_"), values[0], active)
    return lambda values, active: ("", _vote(name, values, active))


_REDUCTIONS: Mapping[str, Any] = {
    "sum": np.add,
    "max": np.maximum,
    "min": np.minimum,
    "bitand": np.bitwise_and,
    "bitor": np.bitwise_or,
}


def _shuffle(name: str, values: list[Array], active: Array) -> tuple[str, Array]:
    value, operand, width, _ = values
    threads = np.arange(value.size)
    lane = threads % WARP_SIZE
    first = lane - lane % width
    last = first + width - 1
    source = {
        "shfl_sync": first + operand % width,
        "shfl_xor": lane ^ operand,
        "shfl_up": lane - operand,
        "shfl_down": lane + operand,
    }[name]
    # The lower end binds only `up`: the others may reach into the groups below, as the hardware's do.
    own = (source > last) | (source < (first if name == "shfl_up" else 0))
    giver = np.where(own, threads, threads - lane + source)
    missing = active & ((giver >= value.size) | ~active[np.minimum(giver, value.size - 1)])
    if missing.any():
        reader = int(np.argmax(missing))
        return f"thread {reader} reads the value of thread {int(giver[reader])}, which takes no part", value
    return "", value[np.minimum(giver, value.size - 1)]


def _reduce(combine: Callable[..., Any], value: Array, active: Array) -> tuple[str, Array]:
    result = value.copy()
    for start in range(0, value.size, WARP_SIZE):
        part = slice(start, start + WARP_SIZE)
        if not active[part].any():
            continue
        if not active[part].all():
            return f"{int(active[part].sum())} of {active[part].size} threads of a warp take part in a reduction", value
        result[part] = _combined(combine, value[part])
    return "", result


def _combined(combine: Callable[..., Any], lanes: Array) -> Any:
    """The lanes of a warp combined as a tree, those half a warp apart first, as exchanges combine them."""
    total, distance = lanes, WARP_SIZE // 2
    while distance:
        count = min(distance, total.size)
        partners = total[distance : distance + count]
        total = np.concatenate([combine(total[: partners.size], partners), total[partners.size : count]])
        distance //= 2
    return total[0]


def _block(kind: str, predicate: Array, active: Array) -> tuple[str, Any]:
    if not active.all():
        return f"a barrier of the block is reached by {int(active.sum())} of {active.size} threads", False
    if kind == "count":
        return "", np.int32(predicate.sum())
    return "", np.bool_(predicate.all() if kind == "and" else predicate.any())


def _vote(name: str, values: list[Array], active: Array) -> Array:
    """`any_sync`, `all_sync`, `ballot_sync` of the lanes in the mask; `activemask` of those that are here."""
    threads = np.arange(active.size)
    lane = (threads % WARP_SIZE).astype(np.uint64)
    taking = active.copy()
    predicate = active
    if name != "activemask":
        predicate, mask = values[0].astype(np.bool_), values[1].astype(np.uint64)
        taking &= ((mask >> lane) & np.uint64(1)).astype(np.bool_)
    kind = {"any_sync": np.bool_, "all_sync": np.bool_}.get(name, np.uint64)
    result = np.zeros(active.size, kind)
    for start in range(0, active.size, WARP_SIZE):
        part = slice(start, start + WARP_SIZE)
        votes, bits = predicate[part] & taking[part], lane[part]
        if name == "any_sync":
            result[part] = votes.any()
        elif name == "all_sync":
            result[part] = (votes == taking[part]).all()
        else:
            result[part] = np.bitwise_or.reduce(np.where(votes, np.uint64(1) << bits, np.uint64(0)))
    return result


def _match(name: str, values: list[Array], active: Array) -> Array:
    """The lanes of the mask whose value has the same bits; for `match_all_sync` all of them or none."""
    bits = np.ascontiguousarray(values[0]).view(np.dtype(f"u{values[0].dtype.itemsize}"))
    lane = (np.arange(active.size) % WARP_SIZE).astype(np.uint32)
    taking = active & ((values[1].astype(np.uint32) >> lane) & np.uint32(1)).astype(np.bool_)
    result = np.zeros(active.size, np.uint32)
    for start in range(0, active.size, WARP_SIZE):
        part = slice(start, start + WARP_SIZE)
        same = (bits[part, None] == bits[None, part]) & taking[None, part]
        if name == "match_all_sync":
            same &= (same | ~taking[None, part]).all(axis=1)[:, None]
        result[part] = (same.astype(np.uint32) << lane[None, part]).sum(axis=1, dtype=np.uint32)
    return result
