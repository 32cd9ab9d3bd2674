"""The decorator `jit`: lazy factories, eager kernels, and what their kernels are kept under."""

from __future__ import annotations

import pytest
import torch

import tile_core as tl
import tile_core.language as T
from tile_core import errors


@pytest.fixture
def factory(fake, programs):
    @tl.jit(out_idx=-1)
    def make(n, block=64, *, dtype="float32"):
        @T.prim_func
        def add(A: T.Tensor((n,), dtype), B: T.Tensor((n,), dtype), C: T.Tensor((n,), dtype)):
            with T.Kernel(T.ceildiv(n, block)) as bx:
                for i in T.Parallel(block):
                    C[bx * block + i] = A[bx * block + i] + B[bx * block + i]

        return add

    return make


def test_the_same_arguments_give_the_identical_kernel(factory):
    kernel = factory(5)
    assert kernel is factory(5)
    assert kernel is factory(n=5)
    assert kernel is factory(5, 64)
    assert kernel is factory(5, block=64, dtype="float32")
    assert kernel is factory.compile(5)
    assert kernel is not factory(6)
    assert kernel is not factory(5, 32)


def test_equal_numbers_of_different_types_are_different_arguments(factory):
    assert len({factory.parse_cache_key(value) for value in (1, 1.0, True, "1")}) == 4
    assert factory.parse_cache_key(0.0) != factory.parse_cache_key(-0.0)
    assert factory.parse_cache_key(float("nan")) == factory.parse_cache_key(float("nan"))


def test_a_tensor_that_an_eager_kernel_does_not_declare(fake):
    @tl.jit
    def fill(X):
        with T.Kernel(1):
            X[0] = 1

    with pytest.raises(errors.CompileTimeArgumentError, match="Tensor for 'X'") as caught:
        fill(torch.ones(3))
    assert "X: T.Tensor(shape, dtype)" in caught.value.remedy


def test_lists_and_dicts_are_arguments(factory):
    key = factory.parse_cache_key
    assert key([1, {"a": [2]}]) == key([1, {"a": [2]}])
    assert key([1, {"a": [2]}]) != key([1, {"a": [3]}])
    assert key([1, 2]) != key((1, 2))
    assert key({1, 2}) == key({2, 1})


def test_arguments_that_do_not_fit(factory):
    with pytest.raises(errors.CompileTimeArgumentError, match="missing a required argument: 'n'"):
        factory()
    with pytest.raises(errors.CompileTimeArgumentError, match="unexpected keyword argument 'size'"):
        factory(5, size=3)
    with pytest.raises(errors.CompileTimeArgumentError, match="Tensor was given for a compile-time argument"):
        factory(torch.ones(3))

    class Mutable:
        __hash__ = None

    with pytest.raises(errors.CompileTimeArgumentError, match="not hashable"):
        factory(5, Mutable())


def test_the_methods_of_a_factory(factory):
    assert factory.is_lazy_mode()
    assert factory.get_tir(5).attrs["global_symbol"] == "add"
    assert factory.get_kernel_source(5) == "// add\n"
    kernels = factory.par_compile([{"n": 5}, (6,), {"n": 7, "block": 32}])
    assert [kernel.params[0].shape for kernel in kernels] == [(5,), (6,), (7,)]
    assert kernels[0] is factory(5)
    assert factory.__name__ == "make"


def test_the_kernel_runs(factory):
    a, b = torch.rand(5), torch.rand(5)
    assert torch.equal(factory(5)(a, b), a + b)


def test_out_idx_belongs_to_each_program(fake):
    @tl.jit(out_idx=[-1])
    def make(more):
        if more:

            @T.prim_func
            def both(
                A: T.Tensor((5,), "float32"),
                B: T.Tensor((5,), "float32"),
                total: T.Tensor((5,), "float32"),
                difference: T.Tensor((5,), "float32"),
            ):
                with T.Kernel(1) as _:
                    for i in T.serial(5):
                        total[i] = A[i] + B[i]
                        difference[i] = A[i] - B[i]

            return both

        @T.prim_func
        def add(A: T.Tensor((5,), "float32"), B: T.Tensor((5,), "float32"), C: T.Tensor((5,), "float32")):
            with T.Kernel(1) as _:
                for i in T.serial(5):
                    C[i] = A[i] + B[i]

        return add

    a, b = torch.rand(5), torch.rand(5)
    assert make(False).out_idx == (2,)
    assert make(True).out_idx == (3,)
    assert torch.equal(make(False)(a, b), a + b)
    assert torch.equal(make(True)(a, b, torch.empty(5)), a - b)


def test_closure_values_count(fake):
    def build(value):
        @tl.jit
        def make(n):
            @T.prim_func
            def scale(A: T.Tensor((n,), "float32"), factor: T.float32, out: T.Tensor((n,), "float32")):
                with T.Kernel(1) as _:
                    for i in T.serial(n):
                        out[i] = A[i] * factor + value

            return scale

        return make

    two, three = build(2.0), build(3.0)
    kernels = [two(5), three(5), two(5)]
    assert kernels[0] is kernels[2]
    assert kernels[0].key != kernels[1].key
    assert len(fake.compiled) == 2


def test_a_factory_that_returns_something_else(fake):
    @tl.jit
    def make(n):
        return n

    assert make.is_lazy_mode()
    with pytest.raises(errors.NotAKernelError, match="make returned int"):
        make(5)


def test_what_is_not_decorated(fake):
    with pytest.raises(errors.NotAKernelError, match="got int"):
        tl.jit(3)
    with pytest.raises(TypeError, match="'outidx'"):
        tl.jit(outidx=1)


@pytest.fixture
def eager(fake):
    @tl.jit
    def add(A, B, C, block=64):
        n = T.const("n")
        A: T.Tensor((n,), "float32")
        B: T.Tensor((n,), "float32")
        C: T.Tensor((n,), "float32")
        with T.Kernel(T.ceildiv(n, block)) as bx:
            for i in T.Parallel(block):
                C[bx * block + i] = A[bx * block + i] + B[bx * block + i]

    return add


def test_an_eager_call_compiles_for_each_size(eager, fake):
    for n in (5, 7, 5):
        a, b, c = torch.rand(n), torch.rand(n), torch.full((n,), float("nan"))
        assert eager(a, b, c) is None
        assert torch.equal(c, a + b)
    assert fake.compiled == ["add", "add"]
    assert not eager.is_lazy_mode()


def test_an_eager_kernel_without_tensors(eager):
    kernel = eager.compile(n=5)
    assert kernel is eager.compile(torch.ones(5), torch.ones(5), torch.ones(5))
    assert kernel is eager.compile(torch.empty(5, device="meta"))
    assert kernel is not eager.compile(n=5, block=32)
    assert eager.get_tir(n=5).attrs["global_symbol"] == "add"
    with pytest.raises(errors.MissingArgumentError, match="tells `n`"):
        eager.compile()


EAGER_CALLS = {
    "missing": (lambda a: ((a, a), {}), errors.ArgumentCountError, "without `C`"),
    "too many": (lambda a: ((a, a, a, 64, 1), {}), errors.ArgumentCountError, "at most 4"),
    "twice": (lambda a: ((a, a, a), {"A": a}), errors.CompileTimeArgumentError, "several values for 'A'"),
    "unknown": (lambda a: ((a, a, a), {"m": 3}), errors.CompileTimeArgumentError, "T.const called 'm'"),
    "sizes": (
        lambda a: ((a, a, a[:2]), {}),
        errors.ArgumentShapeError,
        "is 2, expected 5 .`n` from dimension 0 of `A`",
    ),
    "given size": (lambda a: ((a, a, a), {"n": 6}), errors.ArgumentShapeError, "expected 6"),
    "rank": (lambda a: ((a, a, a[None]), {}), errors.ArgumentRankError, "`C`.*1 dimensions"),
    "no tensor": (lambda a: ((a, [1.0], a), {}), errors.ArgumentTypeError, "`B`.*list"),
    "dtype": (lambda a: ((a, a.double(), a), {}), errors.ArgumentDtypeError, "`B`.*float64"),
    "None": (lambda a: ((a, None, a), {}), errors.MissingArgumentError, "`B`"),
}


@pytest.mark.parametrize("case", EAGER_CALLS)
def test_wrong_eager_calls(eager, case):
    make, kind, pattern = EAGER_CALLS[case]
    arguments, keywords = make(torch.ones(5))
    with pytest.raises(kind, match=pattern):
        eager(*arguments, **keywords)


def test_an_eager_kernel_returns_what_it_makes(fake):
    @tl.jit
    def both(A, B):
        n = T.const("n")
        A: T.Tensor((n,), "float32")
        B: T.Tensor((n,), "float32")
        total = T.empty((n,), "float32")
        difference = T.empty((n,), "float32")
        with T.Kernel(1) as _:
            for i in T.serial(n):
                total[i] = A[i] + B[i]
                difference[i] = A[i] - B[i]
        return total, difference

    a, b = torch.rand(5), torch.rand(5)
    result = both(a, b)
    assert isinstance(result, list)
    assert torch.equal(result[0], a + b)
    assert torch.equal(result[1], a - b)


def test_an_eager_scalar_is_a_run_time_value(fake):
    @tl.jit
    def scale(A, factor: T.float32):
        n = T.const("n")
        A: T.Tensor((n,), "float32")
        out = T.empty((n,), "float32")
        with T.Kernel(1) as _:
            for i in T.serial(n):
                out[i] = A[i] * factor
        return out

    a = torch.rand(5)
    for factor in (2, 2.5, -1):
        assert torch.equal(scale(a, factor), a * factor)
    assert torch.equal(scale(factor=3.0, A=a), a * 3)
    assert fake.compiled == ["scale"]


def test_dynamic_sizes_share_a_kernel(fake):
    @tl.jit
    def scale(A, factor: T.float32):
        n = T.dynamic("n")
        A: T.Tensor((n,), "float32")
        out = T.empty((n,), "float32")
        with T.Kernel(1) as _:
            for i in T.serial(n):
                out[i] = A[i] * factor
        return out

    for n in (5, 7, 0):
        assert torch.equal(scale(torch.ones(n), 2.0), torch.full((n,), 2.0))
    assert scale.compile(torch.ones(3)) is scale.compile(torch.ones(4)) is scale.compile()
    assert fake.compiled == ["scale"]


def test_eager_and_out_idx(fake):
    @tl.jit(out_idx=-1)
    def add(A):
        A: T.Tensor((5,), "float32")
        with T.Kernel(1) as _:
            A[0] = 1.0

    with pytest.raises(errors.OutIdxError, match=r"T\.empty"):
        add(torch.ones(5))
