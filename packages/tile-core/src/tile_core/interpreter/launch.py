"""One launch: its blocks in turn, x fastest, and its threads in lockstep where the program uses their indices.

A block that never asks for a thread index is one program: what stands outside of tile ops and `T.Parallel` runs once.
One that does is run for all threads at once, statement by statement, which is the meaning of a program without races:
every statement's reads come before its writes, as if a barrier stood between statements.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

import numpy as np
from tvm import ir
from tvm.tirx import stmt as S

from tile_core.interpreter.scope import Scope
from tile_core.interpreter.signals import Executor
from tile_core.interpreter.space import UNIFORM, Space
from tile_core.interpreter.state import State
from tile_core.interpreter.values import dtype_of
from tile_core.ir.launch import Launch, from_stmt
from tile_core.ir.visit import collect
from tile_core.ops.collective import grouped
from tile_core.ops.threads import tells_threads_apart


def compile_launch(stmt: S.For, scope: Scope) -> Executor:
    """The function that runs a launch nest."""
    launch = from_stmt(stmt)
    by_thread = tells_threads_apart(launch)
    launch = grouped(launch) if by_thread else launch
    extents = [scope.expr(extent) for extent in launch.grid_extents]
    inner = scope
    blocks: list[tuple[int, type]] = []
    # z outermost in messages, as in the nest; the slots stay in the order x, y, z.
    for var in reversed(launch.grid_vars):
        slot, inner = inner.loop(var)
        blocks.insert(0, (slot, dtype_of(var).numpy.type))
    used = set(collect(launch.body, ir.Var))
    threads = _threads(launch) if by_thread else UNIFORM
    inner = replace(inner, vector=by_thread, threads=by_thread, workers=prod(launch.threads))
    thread_slots: list[int] = []
    for var in reversed(launch.thread_vars):
        if var in used:
            slot, inner = inner.loop(var)
        else:
            slot = inner.declare(var)
        thread_slots.insert(0, slot)
    body = inner.stmt(launch.body)
    reverse = scope.options.reversed_order

    def run(state: State) -> None:
        grid = [max(0, int(extent(state))) for extent in extents]
        numbers = range(prod(grid))
        for number in reversed(numbers) if reverse else numbers:
            for (slot, kind), extent in zip(blocks, grid, strict=True):
                number, at = divmod(number, extent)
                state.values[slot] = kind(at)
            _bind_threads(state, thread_slots, launch.threads, threads)
            state.space, state.mask, state.log, state.loop = threads, None, None, None
            body(state)
        state.space, state.mask = UNIFORM, None

    return run


def _threads(launch: Launch) -> Space:
    x, y, z = launch.threads
    return Space((x * y * z,), ("thread",), threads=True)


def _bind_threads(state: State, slots: list[int], threads: tuple[int, int, int], space: Space) -> None:
    x, y, _ = threads
    linear = space.ids.astype(np.int32) if space.threads else np.int32(0)
    for slot, value in zip(slots, (linear % x, linear // x % y, linear // (x * y)), strict=True):
        state.values[slot] = value
