"""T.Kernel: extents, threads, bindings, queries, keywords of dialects."""

# The programs under test are written as users write them.
# ruff: noqa: RUF059
from __future__ import annotations

import pytest
import torch
from tvm import tirx

import tile_core as tl
import tile_core.language as T
from tile_core.errors import KernelKeywordError, LaunchQueryError, LaunchShapeError, TileError
from tile_core.ir.launch import from_stmt, launches
from tile_core.language.kernel import kernel_type

Ints = T.Tensor((64,), T.int32)


def launch_of(func):
    return from_stmt(next(launches(func.body)))


def traced(*extents, **options):
    @T.prim_func
    def kernel(A: Ints):
        with T.Kernel(*extents, **options):
            A[0] = 1

    return kernel


def test_one_extent_binds_one_index_in_both_spellings():
    @T.prim_func
    def alone(A: Ints):
        with T.Kernel(4, threads=32) as bx:
            A[bx] = 1

    @T.prim_func
    def in_a_tuple(A: Ints):
        with T.Kernel(4, threads=32) as (bx,):
            A[bx] = 1

    for func in (alone, in_a_tuple):
        assert [var.name for var in launch_of(func).grid_vars] == ["bx"]


def test_x_is_fastest_in_two_and_three_extents():
    @T.prim_func
    def kernel(A: T.Tensor((2, 3, 4), T.int32)):
        with T.Kernel(4, 3, 2, threads=32) as (x, y, z):
            A[z, y, x] = (z * 3 + y) * 4 + x

    launch = launch_of(kernel)
    assert [int(extent) for extent in launch.grid_extents] == [4, 3, 2]
    a = torch.full((2, 3, 4), -77, dtype=torch.int32)
    tl.compile(kernel, target="interpret")(a)
    assert torch.equal(a.flatten(), torch.arange(24, dtype=torch.int32))


@pytest.mark.parametrize(
    ("threads", "expected"),
    [(1, (1, 1, 1)), (1024, (1024, 1, 1)), ((32, 4), (32, 4, 1)), ([8, 8, 16], (8, 8, 16)), ((96,), (96, 1, 1))],
)
def test_threads(threads, expected):
    launch = launch_of(traced(1, threads=threads))
    assert launch.threads == expected
    assert launch.threads_given


def test_threads_left_out():
    launch = launch_of(traced(1))
    assert launch.threads == (128, 1, 1)
    assert not launch.threads_given


@pytest.mark.parametrize("threads", [-1, 0, 1025, (32, 64, 2), (32, 0), (1, 1, 1, 1), (), 32.0, "32", True, (32, None)])
def test_threads_that_are_none(threads):
    with pytest.raises(LaunchShapeError, match="1024"):
        traced(1, threads=threads)
    assert issubclass(LaunchShapeError, ValueError)


@pytest.mark.parametrize("extents", [(-1,), (1, -2), (1.5,), ("x",), (True,)])
def test_extents_that_are_none(extents):
    with pytest.raises(LaunchShapeError):
        traced(*extents)


def test_more_than_three_extents():
    with pytest.raises(LaunchShapeError, match="3"):
        traced(1, 2, 3, 4)


def test_an_extent_may_be_zero_and_none_given_is_one_block():
    assert [int(extent) for extent in launch_of(traced(0, 5)).grid_extents] == [0, 5]
    assert [int(extent) for extent in launch_of(traced()).grid_extents] == [1]


def test_an_extent_may_come_from_a_shape_but_not_from_a_buffer():
    n = T.dynamic("n")

    @T.prim_func
    def kernel(A: T.Tensor((n,), T.int32), m: T.int64):
        blocks = T.ceildiv(n, 32)
        with T.Kernel(blocks, m, threads=32) as (bx, by):
            A[bx * 32] = 1

    launch = launch_of(kernel)
    assert "n" in str(launch.grid_extents[0])
    assert [str(var.ty.dtype) for var in launch.grid_vars] == ["int32", "int64"]
    with pytest.raises(TileError, match="buffer"):

        @T.prim_func
        def bad(A: Ints):
            with T.Kernel(A[0], threads=32):
                A[0] = 1


def test_keywords_of_the_portable_kernel():
    assert launch_of(traced(1, prelude="#define X")).prelude == "#define X"
    with pytest.raises(KernelKeywordError, match="cluster_dims"):
        traced(1, cluster_dims=2)
    with pytest.raises(LaunchShapeError, match="prelude"):
        traced(1, prelude=3)
    assert issubclass(KernelKeywordError, TypeError)


def test_a_dialect_declares_its_keywords():
    clustered = kernel_type("example", ["threads", "cluster_dims"], required=["cluster_dims"])

    def build(*extents, **options):
        @T.prim_func
        def kernel(A: Ints):
            with clustered(*extents, **options):
                A[0] = 1

        return kernel

    assert launch_of(build(4, cluster_dims=2)).cluster_dims == (2, 1, 1)
    assert launch_of(build(4, cluster_dims=[1, 1, 1])).cluster_dims == (1, 1, 1)
    with pytest.raises(KernelKeywordError, match="needs `cluster_dims`"):
        build(4)
    with pytest.raises(KernelKeywordError, match="prelude"):
        build(4, cluster_dims=1, prelude="")
    with pytest.raises(LaunchShapeError, match="cluster_dims"):
        build(4, cluster_dims=0)
    single = kernel_type("core", ["prelude"], min_extents=1, max_extents=1, advice="one core index: the grid is 1-D")
    with pytest.raises(KernelKeywordError, match="1-D"):
        single(1, 2)


def test_queries_inside_of_a_kernel():
    seen = {}

    @T.prim_func
    def kernel(A: Ints):
        with T.Kernel(4, 3, threads=(32, 2)) as (bx, by):
            seen["blocks"] = [str(var) for var in T.get_block_bindings()]
            seen["block"] = [str(T.get_block_binding(dim)) for dim in range(3)]
            seen["extent"] = [T.get_block_extent(dim) for dim in range(3)]
            seen["extents"] = T.get_block_extents()
            seen["threads"] = [str(var) for var in T.get_thread_bindings()]
            seen["thread_extents"] = T.get_thread_extents()
            seen["cluster"] = (T.get_cluster_dims(), T.get_cluster_size(), T.get_cluster_extents())
            A[T.get_thread_binding(1)] = T.get_thread_binding()

    assert seen["blocks"] == ["bx", "by"]
    assert seen["block"] == ["bx", "by", "0"]
    assert seen["extent"] == [4, 3, 1]
    assert seen["extents"] == [4, 3]
    assert seen["threads"] == ["tx", "ty", "tz"]
    assert seen["thread_extents"] == [32, 2, 1]
    assert seen["cluster"] == ([1, 1, 1], 1, [4, 3])


@pytest.mark.parametrize("question", ["get_thread_extent", "get_thread_extents"])
def test_thread_extents_are_unknown_where_threads_was_left_out(question):
    with pytest.raises(LaunchQueryError, match="threads=128"):

        @T.prim_func
        def kernel(A: Ints):
            with T.Kernel(1):
                A[0] = getattr(T, question)()

    assert issubclass(LaunchQueryError, ValueError)


@pytest.mark.parametrize("dim", [3, -1, "x"])
def test_axes_that_do_not_exist(dim):
    with pytest.raises(LaunchQueryError, match="axis"):

        @T.prim_func
        def kernel(A: Ints):
            with T.Kernel(1, threads=32):
                A[0] = T.get_block_binding(dim)


def test_queries_outside_of_a_kernel():
    with pytest.raises(LaunchQueryError, match="no kernel is open"):

        @T.prim_func
        def kernel(A: Ints):
            T.get_thread_bindings()


def test_the_thread_index_reaches_every_thread():
    @T.prim_func
    def kernel(A: Ints):
        with T.Kernel(1, threads=(16, 4)):
            tx, ty, _ = T.get_thread_bindings()
            A[ty * 16 + tx] = ty * 100 + tx

    a = torch.full((64,), -77, dtype=torch.int32)
    tl.compile(kernel, target="interpret")(a)
    assert a.tolist() == [y * 100 + x for y in range(4) for x in range(16)]
    assert isinstance(kernel, tirx.PrimFunc)
