"""The generated form of a mapping against its tabulated one."""

from __future__ import annotations

from itertools import product

import pytest
from tvm import tirx

from tile_core.layouts.mapping import FlatMapping, SplitMapping
from tile_core.layouts.tabulate import evaluate

CASES = [
    FlatMapping((64,), threads=8, vector=2),
    FlatMapping((8, 8), threads=8, vector=2),
    FlatMapping((100,), threads=32, vector=4),
    FlatMapping((3, 50), threads=64, vector=2),
    FlatMapping((5, 7, 3), threads=33),
    SplitMapping((4, 64), axis_threads=(4, 8), strides=(8, 1), used=32, threads=32, vector=2),
    SplitMapping((5, 37), axis_threads=(3, 8), strides=(8, 1), used=24, threads=31, vector=4),
    SplitMapping((1, 33), axis_threads=(1, 32), strides=(32, 1), used=32, threads=33),
    SplitMapping((9,), axis_threads=(4,), strides=(8,), used=32, threads=32),
]


@pytest.mark.parametrize("mapping", CASES, ids=str)
def test_a_thread_runs_what_the_table_says_it_owns(mapping) -> None:
    """Every iteration is run, in the thread and register that the fragment names, and no other is."""
    thread = tirx.Var("t", "int32")
    steps = [tirx.Var(f"s{axis}", "int32") for axis in range(len(mapping.steps))]
    index = mapping.indices(thread, steps)
    fragment = mapping.fragment()
    seen: dict[tuple[int, ...], set[int]] = {}
    for t in range(mapping.threads):
        for step in product(*map(range, mapping.steps)):
            values = {thread: t, **dict(zip(steps, step, strict=True))}
            for lane in range(mapping.vector):
                guards = mapping.guards(thread, steps, index, lane, lane)
                if not all(evaluate(guard, values) for guard in guards):
                    continue
                at = [int(evaluate(i, values)) for i in index]
                at[-1] += lane
                register = mapping.register(step, lane)
                assert fragment.local_table[tuple(at)] == register < mapping.registers
                seen.setdefault(tuple(at), set()).add(t)
    assert len(seen) == fragment.elements
    for at, owners in seen.items():
        expected = set(fragment.thread_table[at].tolist())
        assert expected <= owners
        if isinstance(mapping, FlatMapping):
            assert owners == expected


HEAD = tirx.Var("head", "int32")
HEADED = [
    FlatMapping((100,), threads=8, vector=4, head=HEAD),
    FlatMapping((64,), threads=3, vector=8, head=HEAD),
    FlatMapping((37,), threads=32, vector=1, head=HEAD),
    SplitMapping((4093,), axis_threads=(96,), strides=(1,), used=96, threads=96, vector=8, head=HEAD),
    SplitMapping((17,), axis_threads=(2,), strides=(1,), used=2, threads=2, vector=8, head=HEAD),
]


@pytest.mark.parametrize("mapping", HEADED, ids=str)
def test_units_behind_a_head_and_edges_cover_every_iteration_once(mapping) -> None:
    """Whatever the head is; and no two iterations of a thread share a register."""
    (extent,) = mapping.extents
    thread, step = tirx.Var("t", "int32"), tirx.Var("s", "int32")
    index, edge = mapping.indices(thread, [step])[0], mapping.edge(thread, step)
    for head in range(mapping.vector):
        seen: dict[int, tuple[int, int]] = {}
        for t in range(mapping.threads):
            for s in range(mapping.steps[0]):
                values = {thread: t, step: s, HEAD: head}
                last = mapping.vector - 1
                if all(evaluate(guard, values) for guard in mapping.guards(thread, [step], [index], 0, last)):
                    first = int(evaluate(index, values))
                    assert first % mapping.vector == head % mapping.vector
                    for lane in range(mapping.vector):
                        assert first + lane not in seen
                        seen[first + lane] = (t, mapping.register([s], lane))
            for s in range(mapping.edge_steps):
                at = int(evaluate(edge, {thread: t, step: s, HEAD: head}))
                if at < extent:
                    assert at not in seen
                    seen[at] = (t, mapping.register(mapping.steps, s))
        assert sorted(seen) == list(range(extent))
        assert len(set(seen.values())) == extent
        assert max(register for _t, register in seen.values()) < mapping.registers
