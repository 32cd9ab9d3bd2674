"""Layouts that the author gives to fragments and loops are kept as they are, or refused."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch

import tile_core as tl
import tile_core.language as T
from tile_core.errors import LayoutError

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
    with pytest.raises(LayoutError, match="cannot be kept"):
        tl.compile(doubled(64, 8, rows, columns), target=TARGET, execution="emulate")


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

    with pytest.raises(LayoutError, match="has to be shared"):
        tl.compile(kernel, target=TARGET, execution="emulate")
