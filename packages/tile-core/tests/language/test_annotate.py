"""Annotations: accepted ones change no result, wrong ones are refused by name."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import tile_core.language as T
from tile_core.errors import AnnotationError, OpArgumentError
from tile_core.interpreter import Program


@pytest.mark.parametrize(
    "layout",
    [lambda i: i ^ 1, lambda i: 2 * i, lambda i: i + 10, lambda i: (i // 8, i % 8)],
    ids=["xor", "double", "shift", "2d"],
)
def test_a_layout_changes_no_result(layout: Any) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((128,), "int32"), B: T.Tensor((128,), "int32")):
        with T.Kernel(1):
            tile = T.alloc_shared((128,), "int32")
            T.annotate_layout({tile: layout})
            T.use_swizzle(4, order="column")
            T.annotate_restrict_buffers(A, B)
            T.annotate_ws_pipeline_depth({tile: 2})
            T.copy(A, tile)
            T.copy(tile, B)

    a, b = torch.arange(128, dtype=torch.int32), torch.zeros(128, dtype=torch.int32)
    Program(kernel)(a, b)
    assert torch.equal(a, b)
    assert "tile.layout" in kernel.script()


def test_a_layout_of_a_tensor_is_neither_tabulated_nor_kept() -> None:
    extent = 1 << 40

    @T.prim_func
    def kernel(A: T.Tensor((extent, 8), "int32"), B: T.Tensor((8,), "int32")):
        with T.Kernel(1):
            T.annotate_layout({A: T.Layout(A.shape, lambda i, j: (i // 8, j, i % 8)), B: lambda i: i ^ 1})
            for i in T.Parallel(8):
                B[i] = i

    b = torch.zeros(8, dtype=torch.int32)
    Program(kernel)(torch.empty(1, dtype=torch.int32).expand(extent, 8), b)
    assert torch.equal(b, torch.arange(8, dtype=torch.int32))
    assert "tile.layout" not in kernel.script()


def test_options_become_attributes() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((4,), "int32")):
        T.annotate_pass_configs({"a": True, "b": 2})
        T.annotate_compile_flags("-O3 --name='x y'")
        T.annotate_compile_flags(["-g"])
        with T.Kernel(1):
            A[0] = 1

    assert dict(kernel.attrs["tile.pass_configs"]) == {"a": 1, "b": 2}
    assert list(kernel.attrs["tile.compile_flags"]) == ["-O3", "--name=x y", "-g"]


CASES = [
    (lambda A, tile, part: T.annotate_layout({tile: lambda i: i % 64}), ["tile", "injective"]),
    (lambda A, tile, part: T.annotate_layout({tile: T.Layout((64,), lambda i: i)}), ["tile", "(64,)"]),
    (lambda A, tile, part: T.annotate_layout({part: T.Layout((128,), lambda i: i)}), ["part", "T.Fragment"]),
    (lambda A, tile, part: T.annotate_layout({tile: 3}), ["tile", "3"]),
    (lambda A, tile, part: T.annotate_safe_value({tile: 1}), ["tile", "shared"]),
    (lambda A, tile, part: T.annotate_safe_value({A: "x"}), ["A", "x"]),
    (lambda A, tile, part: T.annotate_restrict_buffers(tile), ["tile"]),
    (lambda A, tile, part: T.annotate_ws_pipeline_depth({tile: 0}), ["tile", "0"]),
    (lambda A, tile, part: T.use_swizzle(4, order="diagonal"), ["diagonal", "mlx"]),
    (lambda A, tile, part: T.use_swizzle(0), ["panel_size=0"]),
]


@pytest.mark.parametrize(("build", "words"), CASES)
def test_refusals(build: Any, words: list[str]) -> None:
    with pytest.raises(AnnotationError) as caught:

        @T.prim_func
        def kernel(A: T.Tensor((128,), "int32")):
            with T.Kernel(1):
                tile = T.alloc_shared((128,), "int32")
                part = T.alloc_fragment((128,), "int32")
                build(A, tile, part)

    assert all(word in str(caught.value) for word in words), str(caught.value)
    assert caught.value.span is not None


def test_a_copy_takes_hints() -> None:
    by_row = T.Fragment((8, 16), forward_fn=lambda i, j: (i * 4 + j // 4, j % 4))

    @T.prim_func
    def kernel(A: T.Tensor((8, 16), "float32"), B: T.Tensor((8, 16), "float32")):
        with T.Kernel(1, threads=32):
            tile = T.alloc_fragment((8, 16), "float32")
            T.annotate_layout({tile: by_row})
            T.copy(A, tile, loop_layout=by_row, coalesced_width=4, annotations={"note": [1, "x", True]})
            T.copy(tile, B)

    a, b = torch.randn(8, 16), torch.zeros(8, 16)
    Program(kernel)(a, b)
    assert torch.equal(a, b)
    assert "coalesced_width" in kernel.script()
    assert "thread_map" in kernel.script()


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"loop_layout": 3}, "loop_layout=3"),
        ({"coalesced_width": 0}, "coalesced_width=0"),
        ({"annotations": {"note": object()}}, "note"),
    ],
)
def test_wrong_hints_are_refused(options: dict[str, Any], word: str) -> None:
    with pytest.raises(OpArgumentError, match=word):

        @T.prim_func
        def kernel(A: T.Tensor((8,), "float32")):
            with T.Kernel(1):
                tile = T.alloc_shared((8,), "float32")
                T.copy(A, tile, **options)


@pytest.mark.parametrize(
    "annotate", [T.annotate_safe_value, T.annotate_layout, T.annotate_ws_pipeline_depth], ids=lambda each: each.__name__
)
def test_what_is_no_dict_is_refused(annotate: Any) -> None:
    with pytest.raises(AnnotationError, match="no dict") as caught:

        @T.prim_func
        def kernel(A: T.Tensor((4,), "int32")):
            with T.Kernel(1):
                annotate(T.ceildiv(4, 2))

    assert caught.value.span is not None
