"""Eager functions: kinds of parameters, signature and trace, and running them through `tl.jit`."""

from __future__ import annotations

import pytest
import torch

import tile_core as tl
import tile_core.language as T
from tile_core.errors import OutputError, ParameterError, SymbolError, TileError
from tile_core.frontend.eager import EagerFunction
from tile_core.frontend.values import Var


def scale(A, W, factor: T.float32, block=256, name: str = "x"):
    n, m = T.const("n, m")
    k = T.dynamic("k")
    A: T.Tensor[[n, m, k], T.float16]
    W: T.StridedTensor((m, n // 2), (n, 1), "float32")
    B = T.empty((n, m), dtype="float16")
    rows = min(n, block)
    with T.Kernel(T.ceildiv(n, rows), threads=128) as (bx,):
        for i, j in T.Parallel(rows, m):
            if bx * rows + i < n:
                B[bx * rows + i, j] = A[bx * rows + i, j, 0] * factor
    return B


def test_kinds_of_parameters_are_told_from_the_source():
    eager = EagerFunction(scale)
    assert not eager.is_lazy
    assert eager.tensor_names == ("A", "W")
    assert dict(eager.scalar_dtypes) == {"factor": "float32"}
    assert eager.constant_names == ("block", "name")


def test_signature_leaves_constants_open():
    signature = EagerFunction(scale).signature({})
    a, w = signature.tensors
    assert a.shape[:2] == ("n", "m")
    assert isinstance(a.shape[2], Var)
    assert a.shape[2].name == "k"
    assert (a.dtype, w.dtype) == ("float16", "float32")
    assert w.strides == ("n", 1)
    assert str(w.shape[1]) == "n // 2"
    assert [(scalar.name, scalar.dtype) for scalar in signature.scalars] == [("factor", "float32")]
    assert signature.constants == ("n", "m")


def test_trace_has_constants_as_python_ints():
    program = EagerFunction(scale).trace({"block": 64}, {"n": 100, "m": 7})
    assert [param.name for param in program.params] == ["A", "W", "factor", "B"]
    assert list(program.attrs["tile.out_idx"]) == [3]
    assert [int(extent) for extent in program.params[1].shape] == [7, 50]


def test_factories_are_lazy():
    def factory(n):
        @T.prim_func
        def kernel(A: T.Tensor((n,), T.int32)):
            with T.Kernel(1, threads=32):
                A[0] = 1

        return kernel

    def indirect(n):
        return factory(n)

    assert EagerFunction(factory).is_lazy
    assert EagerFunction(indirect).is_lazy


def test_shapes_known_only_to_some_tensors():
    def half(A, B):
        n = T.const("n")
        A: T.Tensor((n,), "float32")
        B: T.Tensor((n // 2,), "float32")
        with T.Kernel(1, threads=32):
            B[0] = A[0]

    signature = EagerFunction(half).signature({})
    assert signature.tensors[0].shape == ("n",)
    assert [int(extent) for extent in EagerFunction(half).trace({}, {"n": 9}).params[1].shape] == [4]


def test_a_constant_that_nothing_tells(refused):
    def kernel(A):
        n = T.const("n")
        A: T.Tensor((n * 2,), "float32")
        with T.Kernel(1, threads=32):
            A[0] = 1.0

    with refused(SymbolError, naming=("n",)):
        EagerFunction(kernel).signature({})


def test_tensors_are_declared_before_use_and_once(refused):
    def late(A):
        with T.Kernel(1, threads=32):
            A[0] = 1.0
        A: T.Tensor((4,), "float32")

    with refused(ParameterError, at="A[0] = 1.0", naming=("A",)):
        EagerFunction(late).trace({}, {})

    def twice(A):
        A: T.Tensor((4,), "float32")
        A: T.Tensor((4,), "float32")
        with T.Kernel(1, threads=32):
            A[0] = 1.0

    with refused(ParameterError, at="A: T.Tensor"):
        EagerFunction(twice).trace({}, {})

    def conditional(A, flag=False):
        if flag:
            A: T.Tensor((4,), "float32")
        with T.Kernel(1, threads=32):
            pass

    with refused(ParameterError, naming=("A",)):
        EagerFunction(conditional).signature({})


def test_missing_constants(refused):
    def kernel(A, size):
        A: T.Tensor((size,), "float32")
        with T.Kernel(1, threads=32):
            A[0] = 1.0

    with refused(ParameterError, naming=("size",)):
        EagerFunction(kernel).signature({})
    assert EagerFunction(kernel).signature({"size": 3}).tensors[0].shape == (3,)


def test_outputs_must_be_returned(refused):
    def kernel(A):
        A: T.Tensor((4,), "float32")
        B = T.empty((4,))
        with T.Kernel(1, threads=32):
            B[0] = A[0]

    with refused(OutputError, naming=("B",)):
        EagerFunction(kernel).trace({}, {})


def test_facts_of_tensors_are_right_in_the_trace():
    seen = {}

    def kernel(A):
        n = T.const("n")
        A: T.Tensor((n, 8), "float16")
        seen["facts"] = (A.dtype.itemsize, A.dtype.bits, A.shape, A.ndim, 16 // A.dtype.itemsize)
        with T.Kernel(1, threads=32):
            A[0, 0] = 1.0

    EagerFunction(kernel).trace({}, {"n": 5})
    assert seen["facts"] == (2, 16, (5, 8), 2, 8)


def test_a_call_compiles_runs_and_returns_its_tensors():
    @tl.jit(target="interpret")
    def add(A, B, alpha: T.float32, block=4):
        n = T.const("n")
        A: T.Tensor((n,), "float32")
        B: T.Tensor((n,), "float32")
        C = T.empty((n,), dtype="float32")
        with T.Kernel(T.ceildiv(n, block), threads=32) as bx:
            for i in T.Parallel(block):
                if bx * block + i < n:
                    C[bx * block + i] = A[bx * block + i] + alpha * B[bx * block + i]
        return C

    for n in (1, 4, 7):
        a, b = torch.arange(n, dtype=torch.float32), torch.ones(n)
        torch.testing.assert_close(add(a, b, 2.0), a + 2 * b)
    with pytest.raises((TileError, ValueError, TypeError)):
        add(torch.zeros(3), torch.zeros(4), 1.0)
