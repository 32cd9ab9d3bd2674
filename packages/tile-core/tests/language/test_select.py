"""Choosing values, casts and questions about tiles."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import tile_core.language as T
from tile_core.errors import OpArgumentError, OpDTypeError
from tile_core.errors.base import TileError
from tile_core.interpreter import Program


def test_only_the_chosen_side_is_evaluated(evaluate: Any) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((4,), "float32"), Out: T.Tensor((8,), "float32")):
        with T.Kernel(1):
            tile = T.alloc_shared((4,), "float32")
            T.copy(A, tile)
            for i in T.serial(8):
                Out[i] = T.if_then_else(i < 4, tile[i], -1.0)

    a, out = torch.arange(4.0), torch.zeros(8)
    Program(kernel)(a, out)
    assert out.tolist() == [0, 1, 2, 3, -1, -1, -1, -1]


def test_select_promotes_its_sides(evaluate: Any) -> None:
    x = torch.tensor([-2, 0, 3], dtype=torch.int32)
    found = evaluate(lambda v: T.Select(v > 0, v, 0.5), x, dtype=torch.float32)
    assert found.tolist() == [0.5, 0.5, 3.0]


def test_a_python_condition_is_decided_while_tracing(evaluate: Any) -> None:
    x = torch.tensor([1.0])
    assert evaluate(lambda v: T.if_then_else(True, v, 1 / (v - v)), x).item() == 1
    assert evaluate(lambda v: T.Select(False, v, 5.0), x).item() == 5


@pytest.mark.parametrize(
    ("values", "any_", "all_"), [([0, 0], False, False), ([0, 2], True, False), ([3, -1], True, True)]
)
def test_questions(values: list[int], any_: bool, all_: bool) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((3, 2), "int32"), Out: T.Tensor((4,), "bool")):
        with T.Kernel(1):
            row = T.alloc_shared((2,), "int32")
            T.copy(A[1, 0], row)
            Out[0] = T.any_of(row)
            Out[1] = T.all_of(row)
            Out[2] = T.any_of(A[1, :])
            if T.all_of(A[1, :]):
                Out[3] = True

    a, out = torch.zeros(3, 2, dtype=torch.int32), torch.zeros(4, dtype=torch.bool)
    a[1] = torch.tensor(values)
    Program(kernel)(a, out)
    assert out.tolist() == [any_, all_, any_, all_]


@pytest.mark.parametrize(("name", "word"), [("any_of", "or"), ("all_of", "and")])
def test_a_question_about_a_condition_says_what_to_write(name: str, word: str) -> None:
    with pytest.raises(OpArgumentError, match=f"`{word}`"):

        @T.prim_func
        def kernel(A: T.Tensor((2,), "int32")):
            with T.Kernel(1):
                A[0] = getattr(T, name)(A[0] > 1)


@pytest.mark.parametrize(("name", "word"), [("any_of", "or"), ("all_of", "and")])
@pytest.mark.parametrize(
    "several", [lambda A: (A[0] > 1, A[1] > 1), lambda A: (A[0:2], A[1] > 1), lambda A: (A[0:1], A[1:2])]
)
def test_a_question_about_several_things_says_what_to_write(name: str, word: str, several: Any) -> None:
    with pytest.raises(OpArgumentError, match=f"`{word}`"):

        @T.prim_func
        def kernel(A: T.Tensor((2,), "int32")):
            with T.Kernel(1):
                A[0] = getattr(T, name)(*several(A))


@pytest.mark.parametrize("wrong", [lambda: T.cast("a", "int32"), lambda: T.cast(1.5, "int33"), lambda: T.infinity("x")])
def test_errors_outside_of_a_kernel_have_the_callers_line(wrong: Any) -> None:
    with pytest.raises(TileError) as caught:
        wrong()
    assert caught.value.span is not None
    assert caught.value.span.file == __file__


def test_a_question_about_a_matrix_is_refused() -> None:
    with pytest.raises(OpArgumentError, match=r"\(2, 2\)"):

        @T.prim_func
        def kernel(A: T.Tensor((2, 2), "int32")):
            with T.Kernel(1):
                A[0, 0] = T.any_of(A)


@pytest.mark.parametrize("mode", ["rz", "rp", "rm", "rn"])
def test_rounding_modes_of_a_cast(evaluate: Any, mode: str) -> None:
    x = torch.tensor([1.0002, -1.0002, 1.0007, 65519.0])
    found = evaluate(lambda v: T.cast(v, "float16", round=mode), x, dtype=torch.float16).double()
    exact = x.double()
    if mode == "rp":
        assert (found >= exact).all()
    elif mode == "rm":
        assert (found <= exact).all()
    elif mode == "rz":
        assert (found.abs() <= exact.abs()).all()
    else:
        assert torch.equal(found, x.half().double())


def test_saturation_of_a_cast(evaluate: Any) -> None:
    x = torch.tensor([1000.0, -1000.0, 1.0])
    assert evaluate(lambda v: T.cast(v, "float8_e4m3fn"), x, dtype=torch.float32).tolist() == [448, -448, 1]
    assert evaluate(lambda v: T.cast(v, "float8_e5m2", sat=False), x * 1000, dtype=torch.float32)[:2].isinf().all()


def test_casts(evaluate: Any) -> None:
    x = torch.tensor([2.9, -2.9, 300.0, float("nan")])
    assert evaluate(lambda v: T.cast(v, "int32"), x, dtype=torch.int32).tolist() == [2, -2, 300, 0]
    assert evaluate(lambda v: T.Cast("bool", v), x, dtype=torch.bool).all()
    wide = torch.tensor([300, -1, 128], dtype=torch.int32)
    assert evaluate(lambda v: T.cast(v, "int8"), wide, dtype=torch.int8).tolist() == [44, -1, -128]


def test_reinterpret(evaluate: Any) -> None:
    x = torch.tensor([1.0, -2.5, float("nan")])
    assert torch.equal(evaluate(lambda v: T.reinterpret(v, "int32"), x, dtype=torch.int32), x.view(torch.int32))


@pytest.mark.parametrize(
    ("build", "error", "word"),
    [
        (lambda v: T.reinterpret(v, "int16"), OpDTypeError, "32 bits"),
        (lambda v: T.cast(v, "float16", round="up"), OpArgumentError, "up"),
        (lambda v: T.cast(v, "float16", round="rs"), OpArgumentError, "rbits"),
    ],
)
def test_refusals(evaluate: Any, build: Any, error: type[Exception], word: str) -> None:
    with pytest.raises(error, match=word):
        evaluate(build, torch.zeros(1))
