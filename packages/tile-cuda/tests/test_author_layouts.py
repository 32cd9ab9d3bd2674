"""Layouts that the author gives to fragments and loops are kept as they are, or refused."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch

import tile_core as tl
import tile_cuda.language as T
from tile_core.errors import LayoutError
from tile_core.errors.ops import CopyShapeError

TARGET = {"kind": "cuda", "arch": "sm_90"}


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILE_CACHE_DIR", str(tmp_path))


def doubled(m: int, n: int, layout: Any, loop: Any = None) -> Any:
    @T.prim_func
    def kernel(A: T.Tensor((m, n), "float32"), B: T.Tensor((m, n), "float32")):
        with T.Kernel(1, threads=64):
            f = T.alloc_fragment((m, n), "float32")
            if layout is not None:
                T.annotate_layout({f: layout})
            T.copy(A, f)
            for i, j in T.Parallel(m, n, loop_layout=loop):
                f[i, j] = f[i, j] * 2.0
            T.copy(f, B)

    return kernel


LAYOUTS = {
    "rows to threads": ((64, 8), lambda i, j: (i, j), 8),
    "columns to threads": ((8, 64), lambda i, j: (j, i), 8),
    "vectors": ((16, 16), lambda i, j: (i * 4 + j // 4, j % 4), 4),
    "half of the block": ((8, 8), lambda i, j: (i * 4 + j // 2, j % 2), 2),
    "digits of both": ((16, 32), lambda i, j: (i % 8 * 4 + j // 8 + i // 8 * 32, j % 8), 8),
}


@pytest.mark.emulate
@pytest.mark.parametrize("place", ["tile", "loops"])
@pytest.mark.parametrize("name", LAYOUTS)
def test_a_layout_is_kept(name: str, place: str) -> None:
    shape, function, registers = LAYOUTS[name]
    layout = T.Fragment(shape, forward_fn=function)
    program = doubled(*shape, *((layout, None) if place == "tile" else (None, layout)))
    kernel = tl.compile(program, target=TARGET, execution="emulate", pass_configs={"tile.emulate_check": True})
    a, b = torch.randn(shape), torch.full(shape, float("nan"))
    kernel(a, b)
    assert torch.equal(b, a * 2)
    assert kernel.report()["fragment_registers"] == {"f": registers}


@pytest.mark.emulate
def test_the_thread_of_an_element_is_the_one_that_was_asked_for() -> None:
    code = tl.compile(
        doubled(8, 64, T.Fragment((8, 64), forward_fn=lambda i, j: (j, i))), target=TARGET, execution="emulate"
    ).get_kernel_source()
    assert "const int j = tx;" in code
    assert re.search(r"A\[\w+ \* 64 \+ j\]", code)


REFUSED = {
    "threads that depend on two axes at once": T.Fragment((8, 8), forward_fn=lambda i, j: (i * 8 + (j + i) % 8, 0)),
    "an axis that is no number of digits": T.Fragment((6, 8), forward_fn=lambda i, j: ((i * i) % 7 * 8 + j, i)),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_has_no_code_is_refused(name: str) -> None:
    layout = REFUSED[name]
    with pytest.raises(LayoutError, match="layout of f has no code"):
        tl.compile(doubled(*layout.shape, layout), target=TARGET, execution="emulate")


def test_layouts_that_disagree_are_refused() -> None:
    rows = T.Fragment((64, 8), forward_fn=lambda i, j: (i, j))
    columns = T.Fragment((64, 8), forward_fn=lambda i, j: (j, i))
    with pytest.raises(
        LayoutError, match=r"the layouts of f \(line \d+\) and the loops i, j of line \d+ differ"
    ) as raised:
        tl.compile(doubled(64, 8, rows, columns), target=TARGET, execution="emulate")
    assert raised.value.span is not None


def test_a_layout_of_loops_of_unknown_length_is_refused() -> None:
    n = T.dynamic("n")

    @T.prim_func
    def kernel(A: T.Tensor((n,), "float32")):
        with T.Kernel(1, threads=64):
            for i in T.Parallel(n, loop_layout=T.Fragment((64,), forward_fn=lambda i: (i, 0))):
                A[i] = 0.0

    with pytest.raises(LayoutError, match=r"loop i of line \d+ cannot be kept: it does not fit extents"):
        tl.compile(kernel, target=TARGET, execution="emulate")


def test_a_layout_that_a_product_cannot_have_is_refused() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((64, 64), "float16"), C: T.Tensor((64, 64), "float32")):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((64, 64), "float16")
            c = T.alloc_fragment((64, 64), "float32")
            T.annotate_layout({c: T.Fragment((64, 64), forward_fn=lambda i, j: (i, j))})
            T.clear(c)
            T.copy(A, a)
            T.gemm(a, a, c, transpose_B=True)
            T.copy(c, C)

    with pytest.raises(LayoutError, match=r"layout of c \(line \d+\) cannot be kept: it does not fit the instructions"):
        tl.compile(kernel, target=TARGET, execution="emulate")


@pytest.mark.parametrize("place", ["tile", "loops"])
def test_a_layout_of_more_threads_than_there_are_is_refused(place: str) -> None:
    """Elements of threads that nobody launched would be lost."""
    layout = T.Fragment((32, 4), forward_fn=lambda i, j: (i * 4 + j, 0))
    program = doubled(32, 4, *((layout, None) if place == "tile" else (None, layout)))
    with pytest.raises(LayoutError, match="uses threads 0 to 127, and 64 threads work on it") as raised:
        tl.compile(program, target=TARGET, execution="emulate")
    assert raised.value.span is not None


def test_a_fragment_that_has_to_be_shared_keeps_no_layout() -> None:
    layout = T.Fragment((64,), forward_fn=lambda i: (i, 0))

    @T.prim_func
    def kernel(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=64):
            f = T.alloc_fragment((64,), "float32")
            T.annotate_layout({f: layout})
            T.copy(A, f)
            for i in T.Parallel(64):
                B[i] = f[63 - i]

    with pytest.raises(LayoutError, match=r"its use in the loop i of line \d+, so it has to be shared") as raised:
        tl.compile(kernel, target=TARGET, execution="emulate")
    assert "for i in T.Parallel(64):" in str(raised.value)


def copied(layout: Any, *, through_shared: bool = False) -> Any:
    @T.prim_func
    def kernel(A: T.Tensor((100, 60), "float32"), B: T.Tensor((100, 60), "float32")):
        with T.Kernel(4, 4, threads=64) as (bx, by):
            tile = T.alloc_shared((32, 16), "float32")
            f = T.alloc_fragment((32, 16), "float32")
            T.copy(A[by * 32, bx * 16], tile if through_shared else f, loop_layout=layout)
            T.copy(tile if through_shared else f, B[by * 32, bx * 16], loop_layout=layout)

    return kernel


COPY_LAYOUTS = {
    "columns to threads": (T.Fragment((32, 16), forward_fn=lambda i, j: (i % 4 * 16 + j, i // 4)), "i // 4"),
    "rows to threads": (T.Fragment((32, 16), forward_fn=lambda i, j: (i * 2 + j // 8, j % 8)), "j % 8"),
}


@pytest.mark.emulate
@pytest.mark.parametrize("through_shared", [False, True])
@pytest.mark.parametrize("name", COPY_LAYOUTS)
def test_a_copy_is_divided_as_its_author_says(name: str, through_shared: bool) -> None:
    layout, _register = COPY_LAYOUTS[name]
    kernel = tl.compile(
        copied(layout, through_shared=through_shared),
        target=TARGET,
        execution="emulate",
        pass_configs={"tile.emulate_check": True},
    )
    a, b = torch.randn(100, 60), torch.full((100, 60), float("nan"))
    kernel(a, b)
    assert torch.equal(a, b)
    source = kernel.get_kernel_source()
    place = r"tx % 16\b" if name == "columns to threads" else r"tx / 2\b"
    assert re.search(rf"(const int [ij]\w* = |\(A, ).*{place}", source), source


@pytest.mark.parametrize("shape", [(32,), (16, 16), (32, 16, 1)])
def test_a_layout_that_does_not_cover_a_copy_is_refused(shape: tuple[int, ...]) -> None:
    layout = T.Fragment(shape, forward_fn=lambda i, *rest: (i, sum(rest)))
    with pytest.raises(CopyShapeError, match=r"loop_layout of shape .* does not cover \(32, 16\)"):
        copied(layout)


def transposed(layout: Any, dtype: str = "float32", shape: tuple[int, int] = (32, 64)) -> Any:
    """B = Aᵀ through a shared tile with a layout of the author's."""
    m, n = shape

    @T.prim_func
    def kernel(A: T.Tensor((m, n), dtype), B: T.Tensor((n, m), dtype)):
        with T.Kernel(1, threads=64):
            tile = T.alloc_shared((m, n), dtype)
            T.annotate_layout({tile: layout})
            T.copy(A, tile)
            for j, i in T.Parallel(n, m):
                B[j, i] = tile[i, j]

    return kernel


SHARED_LAYOUTS = {
    "padded rows": lambda i, j: i * 65 + j,
    "exclusive or": lambda i, j: i * 64 + (j ^ i % 32),
    "by columns": lambda i, j: j * 32 + i,
    "with gaps": lambda i, j: 2 * (i * 64 + j) + 10,
    "two axes": lambda i, j: (j // 8, i, j % 8),
    "plain": lambda i, j: i * 64 + j,
    "of matrix instructions": lambda i, j: T.get_swizzle_layout(i, j, 64, "float32"),
}


@pytest.mark.emulate
@pytest.mark.parametrize("name", SHARED_LAYOUTS)
def test_a_shared_tile_lies_as_its_author_says(name: str) -> None:
    function = SHARED_LAYOUTS[name]
    kernel = tl.compile(
        transposed(function), target=TARGET, execution="emulate", pass_configs={"tile.emulate_check": True}
    )
    a, b = torch.randn(32, 64), torch.full((64, 32), float("nan"))
    kernel(a, b)
    assert torch.equal(b, a.T)
    source, expected = kernel.get_kernel_source(), {"padded rows": "* 65", "by columns": "* 32", "with gaps": "+ 10"}
    assert expected.get(name, "tile") in source


@pytest.mark.emulate
def test_whole_words_of_a_placed_tile() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((8, 64), "float16"), B: T.Tensor((8, 64), "float16")):
        with T.Kernel(1, threads=64):
            tile = T.alloc_shared((8, 64), "float16")
            T.annotate_layout({tile: lambda i, j: j // 8 * 64 + i * 8 + j % 8})
            tx = T.get_thread_binding(0)
            T.sts128(tile[tx // 8, tx % 8 * 8], T.ldg128(A[tx // 8, tx % 8 * 8]))
            T.copy(tile, B)

    a, b = torch.randn(8, 64).half(), torch.zeros(8, 64).half()
    tl.compile(kernel, target=TARGET, execution="emulate", pass_configs={"tile.emulate_check": True})(a, b)
    assert torch.equal(a, b)


def in_product() -> Any:
    @T.prim_func
    def kernel(C: T.Tensor((64, 64), "float32")):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((64, 64), "float16")
            b = T.alloc_shared((64, 64), "float16")
            c = T.alloc_fragment((64, 64), "float32")
            T.annotate_layout({a: lambda i, j: i * 72 + j})
            T.fill(a, 1.0)
            T.fill(b, 1.0)
            T.gemm(a, b, c, clear_accum=True)
            T.copy(c, C)

    return kernel


def in_copy_engine() -> Any:
    @T.prim_func
    def kernel(A: T.Tensor((64, 64), "float16")):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((64, 64), "float16")
            full = T.alloc_barrier(128)
            T.annotate_layout({a: lambda i, j: i * 72 + j})
            T.tma_copy(A, a, barrier=full)

    return kernel


def by_two_names() -> Any:
    @T.prim_func
    def kernel(A: T.Tensor((64, 64), "float16")):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((64, 64), "float16")
            T.annotate_layout({a: lambda i, j: i * 72 + j})
            other = T.reshape(a, (4096,))
            other[0] = 1.0
            T.copy(a, A)

    return kernel


def in_words() -> Any:
    @T.prim_func
    def kernel(A: T.Tensor((8, 64), "float16")):
        with T.Kernel(1, threads=64):
            a = T.alloc_shared((8, 64), "float16")
            T.annotate_layout({a: lambda i, j: j * 8 + i})
            tx = T.get_thread_binding(0)
            T.sts128(a[tx // 8, tx % 8 * 8], T.ldg128(A[tx // 8, tx % 8 * 8]))

    return kernel


@pytest.mark.parametrize(
    ("program", "why"),
    [
        (in_product, "a product, which orders its tiles"),
        (in_copy_engine, "a copy engine"),
        (by_two_names, "has another name"),
        (in_words, "8 elements at once"),
    ],
)
def test_a_shared_layout_that_cannot_be_kept_is_refused(program: Any, why: str) -> None:
    with pytest.raises(LayoutError, match=f"the layout of a cannot be kept: it .*{why}") as raised:
        tl.compile(program(), target=TARGET, execution="emulate")
    assert raised.value.span is not None


@pytest.mark.emulate
def test_a_placed_tile_keeps_its_copies_in_a_pipelined_loop() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((32, 256), "float32"), B: T.Tensor((32, 64), "float32")):
        with T.Kernel(1, threads=128):
            tile = T.alloc_shared((32, 64), "float32")
            total = T.alloc_fragment((32, 64), "float32")
            T.annotate_layout({tile: lambda i, j: i * 68 + j})
            T.clear(total)
            for k in T.Pipelined(4, num_stages=2):
                T.copy(A[0, k * 64], tile)
                for i, j in T.Parallel(32, 64):
                    total[i, j] += tile[31 - i, j]
            T.copy(total, B)

    compiled = tl.compile(kernel, target=TARGET, execution="emulate", pass_configs={"tile.emulate_check": True})
    a, b = torch.randint(-4, 5, (32, 256)).float(), torch.full((32, 64), float("nan"))
    compiled(a, b)
    assert torch.equal(b, a.reshape(32, 4, 64).sum(1).flip(0))
    assert compiled.report()["specialized_warps"] == 0
