"""The loops: their ranges against Python's, their IR, their refusals."""

# The programs under test are written as users write them.
# ruff: noqa: B007, B023, C416, F841
from __future__ import annotations

import itertools
import linecache

import pytest
import torch
from tvm.tirx import stmt as S

import tile_core as tl
import tile_core.language as T
from tile_core.errors import LoopArgumentError, LoopUseError, TileError
from tile_core.ir.launch import from_stmt, launches
from tile_core.ir.visit import statements

N = 64
Ints = T.Tensor((N,), T.int32)


def loops(func):
    launch = from_stmt(next(launches(func.body)))
    return [stmt for stmt in statements(launch.body) if isinstance(stmt, S.For)]


def visited(make_loop, scalar=None):
    """The indices that a loop visits, in order, as the reference target runs it."""

    @T.prim_func
    def kernel(A: Ints, n: T.int32):
        with T.Kernel(1, threads=1):
            count = T.alloc_var(T.int32, init=0)
            for i in make_loop(n):
                A[count] = i
                count += 1

    a = torch.full((N,), -77, dtype=torch.int32)
    tl.compile(kernel, target="interpret")(a, 0 if scalar is None else scalar)
    return [value for value in a.tolist() if value != -77]


RANGES = [
    (5,),
    (0,),
    (2, 6),
    (6, 2),
    (0, 9, 2),
    (1, 10, 3),
    (10, 0, -1),
    (10, 1, -3),
    (3, 3),
    (-4, 3),
    (5, -5, -4),
    (7, 8, 100),
]


@pytest.mark.parametrize("bounds", RANGES)
@pytest.mark.parametrize("kind", ["serial", "unroll", "Serial"])
def test_ranges_are_those_of_python(bounds, kind):
    assert visited(lambda n: getattr(T, kind)(*bounds)) == list(range(*bounds))


@pytest.mark.parametrize("bounds", [b for b in RANGES if len(b) < 3])
def test_pipelined_ranges(bounds):
    assert visited(lambda n: T.Pipelined(*bounds, num_stages=2)) == list(range(*bounds))


@pytest.mark.parametrize("n", [0, 1, 7, -3])
def test_run_time_bounds(n):
    assert visited(lambda stop: T.serial(stop), n) == list(range(n))
    assert visited(lambda start: T.serial(start, 5), n) == list(range(n, 5))
    assert visited(lambda stop: T.serial(1, stop, 2), n) == list(range(1, n, 2))
    assert visited(lambda start: T.serial(start, -2, -2), n) == list(range(n, -2, -2))


@pytest.mark.parametrize("step", [1, 3, -2, -7])
def test_run_time_step(step):
    assert visited(lambda n: T.serial(2, 9, n), step) == list(range(2, 9, step))
    assert visited(lambda n: T.serial(9, 2, n), step) == list(range(9, 2, step))


def test_bounds_that_are_equal_variables():
    assert visited(lambda s: T.serial(s, s + 1), 5) == [5]


def test_range_is_a_device_loop_and_sequences_unroll():
    @T.prim_func
    def kernel(A: Ints):
        with T.Kernel(1, threads=32):
            for i in range(4):
                A[i] = i
            for k in list(range(3)):
                A[k] = k

    assert len(loops(kernel)) == 1


def test_kinds_and_annotations():
    @T.prim_func
    def kernel(A: Ints):
        with T.Kernel(1, threads=32):
            for i in T.serial(4, annotations={"mine": 1}):
                A[i] = 1
            for i in T.unroll(4, unroll_factor=2):
                A[i] = 1
            for i in T.unroll(4, explicit=True):
                A[i] = 1
            for i in T.vectorized(4, 8):
                A[i] = 1
            for i, j in T.Parallel(4, 8, coalesced_width=4):
                A[i * 8 + j] = 1
            for i in T.Pipelined(4, num_stages=3, order=[0, 1], stage=[0, 1], group=[[0], [1]]):
                A[i] = 1
                A[i + 1] = 1
            for i, j in T.grid(2, 3):
                A[i * 3 + j] = 1

    found = loops(kernel)
    kinds = [S.ForKind(loop.kind).name for loop in found]
    assert kinds == [
        "SERIAL",
        "UNROLLED",
        "UNROLLED",
        "VECTORIZED",
        "PARALLEL",
        "PARALLEL",
        "SERIAL",
        "SERIAL",
        "SERIAL",
    ]
    marks = [{key: loop.annotations[key] for key in loop.annotations.keys()} for loop in found]
    assert int(marks[0]["mine"]) == 1
    assert int(marks[1]["tile.unroll_factor"]) == 2
    assert int(marks[2]["tile.unroll_explicit"]) == 1
    assert int(found[3].min) == 4
    assert int(found[3].extent) == 4
    assert (int(marks[4]["tile.parallel"]), int(marks[4]["tile.coalesced_width"])) == (2, 4)
    assert not marks[5]
    assert int(marks[6]["tile.num_stages"]) == 3
    assert list(marks[6]["tile.order"]) == [0, 1]
    assert [list(group) for group in marks[6]["tile.group"]] == [[0], [1]]
    assert [loop.loop_var.name for loop in found[4:6]] == ["i", "j"] or len(
        {loop.loop_var.name for loop in found[4:6]}
    ) == 2


def test_parallel_with_a_layout():
    layout = T.Fragment((4, 8), forward_fn=lambda i, j: (j, i))

    @T.prim_func
    def kernel(A: Ints):
        with T.Kernel(1, threads=8):
            for i, j in T.Parallel(4, 8, loop_layout=layout):
                A[i * 8 + j] = 1

    annotation = loops(kernel)[0].annotations["tile.loop_layout"]
    assert list(annotation["shape"]) == [4, 8]
    assert len(annotation["thread_map"].initial_indices) == 3


def test_parallel_visits_everything_once_with_run_time_extents():
    @T.prim_func
    def kernel(A: Ints, n: T.int32, m: T.int32):
        with T.Kernel(1, threads=32):
            for i, j in T.Parallel(n, m):
                A[i * m + j] += 1

    a = torch.zeros(N, dtype=torch.int32)
    tl.compile(kernel, target="interpret")(a, 7, 5)
    assert a.tolist() == [1] * 35 + [0] * 29


def persistent(domain, wave, group):
    order = []
    for index in range(wave):

        @T.prim_func
        def kernel(A: T.Tensor((N, 4), T.int32)):
            with T.Kernel(1, threads=1):
                count = T.alloc_var(T.int32, init=0)
                for coordinates in T.Persistent(domain, wave, index, group):
                    values = coordinates if len(domain) > 1 else (coordinates,)
                    for k, value in enumerate(values):
                        A[count, k] = value
                    count += 1

        a = torch.full((N, 4), -77, dtype=torch.int32)
        tl.compile(kernel, target="interpret")(a)
        order.append([tuple(row[: len(domain)].tolist()) for row in a if row[0] != -77])
    return order


def test_persistent_order_of_one_worker():
    (order,) = persistent([4, 10], 1, 4)
    assert order[:5] == [(0, 0), (0, 1), (0, 2), (0, 3), (1, 0)]
    assert order[16] == (0, 4)
    assert order[-1] == (3, 9)


@pytest.mark.parametrize(("domain", "wave", "group"), [([4, 10], 3, 4), ([7], 2, 8), ([2, 3, 5], 4, 2), ([5, 1], 7, 8)])
def test_persistent_visits_every_tile_once(domain, wave, group):
    tiles = [tile for worker in persistent(domain, wave, group) for tile in worker]
    assert sorted(tiles) == sorted(itertools.product(*(range(extent) for extent in domain)))


@pytest.mark.parametrize(
    "make",
    [
        lambda: T.serial(0, 4, 0),
        lambda: T.serial(1.5),
        lambda: T.serial("4"),
        lambda: T.serial(True),
        lambda: T.Parallel(),
        lambda: T.Parallel(4, coalesced_width=0),
        lambda: T.Parallel(4, coalesced_width=2.0),
        lambda: T.Parallel(4, loop_layout=3),
        lambda: T.Parallel(4, loop_layout=T.Fragment((4, 4), forward_fn=lambda i, j: (i, j))),
        lambda: T.Parallel(4, 5, loop_layout=T.Fragment((4, 4), forward_fn=lambda i, j: (i, j))),
        lambda: T.unroll(4, explicit=True, unroll_factor=2),
        lambda: T.unroll(4, unroll_factor=0),
        lambda: T.Pipelined(4, num_stages=1.5),
        lambda: T.Persistent([4], 1, 0, num_stages=True),
        lambda: T.Persistent([-4], 1, 0),
        lambda: T.Parallel(-3),
        lambda: T.Parallel(4, -1),
        lambda: T.grid(-1),
        lambda: T.serial(10**400),
        lambda: T.serial(-(2**62), 2**63 - 1),
        lambda: T.Pipelined(4, order=[0, 0], stage=[0, 1]),
        lambda: T.Pipelined(4, order=[0, 1], stage=[0]),
        lambda: T.Pipelined(4, order=3),
        lambda: T.grid(),
        lambda: T.Persistent([], 4, 0),
        lambda: T.Persistent([4], 0, 0),
    ],
)
def test_arguments_that_describe_no_loop(make):
    with pytest.raises(LoopArgumentError) as caught:
        make()
    assert caught.value.remedy
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize("arguments", [(0, 3, 0), (1.5,), (), ("4",), (1, 2, 3, 4)])
def test_arguments_that_python_refuses_for_a_range(arguments):
    with pytest.raises(LoopArgumentError, match="range") as caught:

        @T.prim_func
        def kernel(A: Ints):
            with T.Kernel(1, threads=32):
                for i in range(*arguments):
                    A[i] = 1

    span = caught.value.span
    assert span is not None
    assert "range(*arguments)" in linecache.getline(span.file, span.line)


@pytest.mark.parametrize("make", [lambda: T.Parallel(0), lambda: T.grid(0), lambda: T.serial(-2), lambda: range(-2)])
def test_extents_of_zero_and_ranges_that_end_before_they_begin_do_nothing(make):
    @T.prim_func
    def kernel(A: Ints):
        with T.Kernel(1, threads=32):
            for i in make():
                A[i] = 1

    a = torch.full((N,), -77, dtype=torch.int32)
    tl.compile(kernel, target="interpret")(a)
    assert (a == -77).all()


def test_loops_are_not_iterated_by_python():
    with pytest.raises(LoopUseError, match="for i in"):
        list(T.serial(4))
    with pytest.raises(TileError, match="comprehension"):

        @T.prim_func
        def kernel(A: Ints):
            with T.Kernel(1, threads=32):
                values = [i for i in T.serial(4)]

    assert issubclass(LoopUseError, TypeError)


def test_loop_variables_are_int32_or_as_wide_as_their_bounds():
    @T.prim_func
    def kernel(A: Ints, n: T.int64):
        with T.Kernel(1, threads=32):
            for i in T.serial(4):
                A[i] = 1
            for i in T.serial(n):
                A[i] = 1
            for i in T.serial(2**31, 2**31 + 2):
                A[0] = 1

    assert [str(loop.loop_var.ty.dtype) for loop in loops(kernel)] == ["int32", "int64", "int64"]


@pytest.mark.parametrize("loop", [T.Parallel, T.serial, T.grid], ids=lambda each: each.__name__)
def test_a_bound_that_is_a_tensor_of_many_is_refused(loop):
    with pytest.raises(LoopArgumentError, match="bound of"):
        loop(torch.arange(3))


def test_a_loop_outside_of_a_kernel_is_refused_at_its_line():
    with pytest.raises(LoopUseError, match="cannot be iterated") as caught:
        list(T.Parallel(4))
    assert caught.value.span is not None
    assert caught.value.span.file == __file__
