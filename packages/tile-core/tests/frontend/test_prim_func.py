"""T.prim_func: parameters, symbols, outputs, several kernels, refused constructs."""

# The programs under test are written as users write them.
# ruff: noqa: B007, F841, SIM117, UP037
from __future__ import annotations

import linecache

import pytest
import torch
from tvm import tirx
from tvm.tirx import stmt as S

import tile_core as tl
import tile_core.language as T
from tile_core.errors import (
    CallSignatureError,
    HostStatementError,
    KernelNestingError,
    NoBuilderError,
    OutputError,
    ParameterError,
    ReturnValueError,
    SymbolError,
    TensorShapeError,
)
from tile_core.ir.launch import from_stmt, launches
from tile_core.ir.spans import from_tvm
from tile_core.ir.visit import statements

Ints = T.Tensor((8,), T.int32)


def zeros(*shape: int) -> torch.Tensor:
    """A poisoned output: no test expects -77."""
    return torch.full(shape, -77, dtype=torch.int32)


def test_the_result_is_a_program_with_the_functions_name_and_parameters():
    n = T.dynamic("n")

    @T.prim_func
    def add_one(A: T.Tensor((n, 4), "float16"), x: T.float32, flag: T.bool, p: T.ptr("int8"), q: T.ptr):
        with T.Kernel(n, threads=32) as bx:
            A[bx, 0] = x

    assert isinstance(add_one, tirx.PrimFunc)
    assert add_one.attrs["global_symbol"] == "add_one"
    assert [param.name for param in add_one.params] == ["A", "x", "flag", "p", "q"]
    a = add_one.params[0]
    assert (a.shape[0].name, int(a.shape[1]), str(a.dtype)) == ("n", 4, "float16")
    assert [str(param.ty.dtype) for param in add_one.params[1:3]] == ["float32", "bool"]


def test_one_annotation_object_for_two_parameters_makes_two_buffers(run):
    @T.prim_func
    def kernel(A: Ints, B: Ints):
        with T.Kernel(1, threads=32):
            B[0] = A[0]

    assert not kernel.params[0].same_as(kernel.params[1])
    b = zeros(8)
    run(kernel, torch.full((8,), 3, dtype=torch.int32), b)
    assert b[0] == 3


def test_parentheses_and_defaults_are_accepted():
    @T.prim_func()
    def kernel(A: Ints, k: T.int32 = 3):
        with T.Kernel(1, threads=32):
            A[0] = k

    assert len(kernel.params) == 2


@pytest.mark.parametrize(
    ("annotation", "words"),
    [(int, ("T.int32",)), (float, ("T.float32",)), ("nonsense", ("nonsense",)), ([1], ("T.Tensor",))],
)
def test_annotations_that_are_no_parameter_type(annotation, words):
    def kernel(A, n):
        with T.Kernel(1, threads=32):
            A[0] = n

    kernel.__annotations__ = {"A": Ints, "n": annotation}
    with pytest.raises(ParameterError) as caught:
        T.prim_func(kernel)
    assert "n" in str(caught.value)
    assert all(word in str(caught.value) for word in words)


def test_parameters_that_a_kernel_cannot_have(refused):
    with refused(ParameterError, at="def missing", naming=("A",)):

        @T.prim_func
        def missing(A):
            with T.Kernel(1, threads=32):
                A[0] = 1

    with refused(ParameterError, at="def variadic", naming=("rest",)):

        @T.prim_func
        def variadic(*rest: Ints):
            pass

    with refused(ParameterError, at="def positional", naming=("A",)):

        @T.prim_func
        def positional(A: Ints, /):
            pass


def test_empty_kernels_and_functions_without_arguments():
    @T.prim_func
    def empty(A: Ints):
        with T.Kernel(4, threads=32):
            pass

    @T.prim_func
    def nothing():
        with T.Kernel(1, threads=32):
            x = 1

    @T.prim_func
    def no_kernel(A: Ints):
        """Only a docstring."""

    assert len(list(launches(empty.body))) == len(list(launches(nothing.body))) == 1
    assert not list(launches(no_kernel.body))


def test_dead_loads_are_fine(run):
    @T.prim_func
    def kernel(A: Ints):
        with T.Kernel(1, threads=32):
            A[3]
            unused = A[4]
            A[0] = 1

    a = zeros(8)
    run(kernel, a)
    assert a[0] == 1


def test_several_kernels_in_order(run):
    @T.prim_func
    def kernel(A: Ints):
        with T.Kernel(1, threads=32):
            A[0] = 1
        with T.Kernel(2, threads=64) as bx:
            A[bx + 1] = A[0] + 1

    assert [from_stmt(launch).threads for launch in launches(kernel.body)] == [(32, 1, 1), (64, 1, 1)]
    a = zeros(8)
    run(kernel, a)
    assert a[:3].tolist() == [1, 2, 2]


def test_kernels_do_not_nest(refused):
    with refused(KernelNestingError, at="with T.Kernel(2, threads=32)"):

        @T.prim_func
        def kernel(A: Ints):
            with T.Kernel(1, threads=32):
                with T.Kernel(2, threads=32):
                    A[0] = 1


@pytest.mark.parametrize("loop", ["Parallel", "vectorized", "parallel"])
def test_kernels_are_not_launched_without_an_order(refused, loop):
    with refused(KernelNestingError, at="with T.Kernel(1, threads=32)", naming=(f"T.{loop}",)):

        @T.prim_func
        def kernel(A: Ints):
            for _ in getattr(T, loop)(3):
                with T.Kernel(1, threads=32):
                    A[0] = 1


def test_kernels_under_conditions_and_in_loops_of_the_host(run):
    @T.prim_func
    def kernel(A: Ints, n: T.int32):
        for i in T.serial(3):
            if n > i:
                with T.Kernel(1, threads=32):
                    A[i] = A[i] + i + 1

    for n in range(4):
        a = torch.zeros(8, dtype=torch.int32)
        run(kernel, a, n)
        assert a[:3].tolist() == [i + 1 if n > i else 0 for i in range(3)]


def test_buffers_are_not_touched_outside_of_a_kernel(refused):
    with refused(HostStatementError, at="A[0] = 1"):

        @T.prim_func
        def stores(A: Ints):
            A[0] = 1

    with refused(HostStatementError, at="T.clear(A)"):

        @T.prim_func
        def clears(A: Ints):
            T.clear(A)

    with refused(HostStatementError, at="x = A[0]"):

        @T.prim_func
        def loads(A: Ints):
            x = A[0]
            with T.Kernel(1, threads=32):
                A[1] = x


def test_language_functions_outside_of_a_trace():
    with pytest.raises(NoBuilderError, match="T.prim_func"):
        T.alloc_shared((8,), "float32")


@pytest.mark.parametrize(
    "call",
    [
        lambda: T.copy(1, 2),
        lambda: T.copy(T.Tensor((8,), "int32"), T.Tensor((8,), "int32")),
        lambda: T.gemm(1, 2, 3),
        lambda: T.reduce_sum(1, 2),
        lambda: T.atomic_add(1, 2),
        lambda: T.fill(1, 2),
        lambda: T.view(1, (2,)),
        lambda: T.print(1),
        lambda: T.annotate_layout({1: 2}),
    ],
)
def test_wrong_arguments_do_not_hide_that_nothing_is_traced(call):
    with pytest.raises(NoBuilderError, match="T.prim_func") as caught:
        call()
    assert caught.value.span is not None
    assert caught.value.span.file == __file__


def test_every_statement_has_the_users_line():
    @T.prim_func
    def kernel(A: Ints, B: Ints):
        with T.Kernel(1, threads=32):  # the launch
            S_ = T.alloc_shared((8,), T.int32)  # the allocation
            for i in T.Parallel(8):  # the loop
                v = A[i]  # the binding
                if v > 3:  # the branch
                    S_[i] = v  # the store
                else:
                    S_[i] = 0  # the other store
            T.copy(S_, B)  # the copy

    comments = {
        S.AllocBuffer: "allocation",
        S.Bind: "binding",
        S.IfThenElse: "branch",
        S.BufferStore: "store",
        S.Evaluate: "copy",
    }
    seen = set()
    for stmt in statements(kernel.body):
        if isinstance(stmt, S.SeqStmt):
            continue
        span = from_tvm(stmt.span)
        assert span is not None, stmt
        assert span.file == __file__
        line = linecache.getline(span.file, span.line)
        expected = comments.get(type(stmt), "the l")
        assert expected in line, (type(stmt), line)
        assert span.end_column > span.column
        seen.add(type(stmt))
    assert seen >= {*comments, S.For}


def test_outputs_are_returned_and_become_the_last_parameters():
    @T.prim_func
    def kernel(A: Ints):
        B = T.empty((8,), dtype=T.int32)
        C = T.empty(4, 2, dtype="float16")
        with T.Kernel(1, threads=32):
            B[0] = A[0]
            C[0, 0] = 1
        return C, B

    assert [param.name for param in kernel.params] == ["A", "C", "B"]
    assert list(kernel.attrs["tile.out_idx"]) == [1, 2]
    assert [int(extent) for extent in kernel.params[1].shape] == [4, 2]


def test_outputs_and_return_must_match(refused):
    with refused(OutputError, naming=("B",)):

        @T.prim_func
        def forgotten(A: Ints):
            B = T.empty((8,), dtype=T.int32)
            with T.Kernel(1, threads=32):
                B[0] = A[0]

    with refused(ReturnValueError, naming=("T.empty",)):

        @T.prim_func
        def other(A: Ints):
            with T.Kernel(1, threads=32):
                A[0] = 1
            return A

    with refused(OutputError):

        @T.prim_func
        def twice(A: Ints):
            B = T.empty((8,), dtype=T.int32)
            with T.Kernel(1, threads=32):
                B[0] = A[0]
            return B, B

    with refused(KernelNestingError, at="T.empty"):

        @T.prim_func
        def inside(A: Ints):
            with T.Kernel(1, threads=32):
                B = T.empty((8,))


def test_symbols():
    m, n = T.dynamic("m, n")
    (k,) = [T.symbolic("k", "int64")]

    @T.prim_func
    def kernel(A: T.Tensor((m, n), T.int32), B: T.StridedTensor((n, 4), (k, 1), T.int32)):
        with T.Kernel(m, n, threads=32) as (bx, by):
            for i in T.serial(m * 2 // n):
                A[bx, by] = B[by, 0]

    assert [str(stride) for stride in kernel.params[1].strides] == ["k", "T.int64(1)"]
    with pytest.raises(SymbolError):
        T.dynamic("3x")
    with pytest.raises(SymbolError):
        T.dynamic("x", "float32")
    with pytest.raises(SymbolError, match="eager"):
        T.const("n")


def test_a_symbol_that_nothing_tells(refused):
    n = T.dynamic("n")
    with refused(SymbolError, naming=("n",)):

        @T.prim_func
        def kernel(A: T.Tensor((n * 2,), T.int32)):
            with T.Kernel(1, threads=32):
                A[0] = 1


@pytest.mark.parametrize("shape", [(-1,), (2.5,), "abc", (True,)])
def test_shapes_that_are_none(shape):
    with pytest.raises(TensorShapeError):
        T.Tensor(shape, "float32")


def test_strides_and_subscripts():
    assert T.Tensor[[4, 8], "float16"].shape == (4, 8)
    assert T.Tensor[(4, 8), "float16"].dtype == "float16"
    assert T.Tensor[4, 8].shape == (4, 8)
    assert (T.Tensor[4, "float16"].shape, T.Tensor[(4), T.float16].dtype) == ((4,), "float16")
    assert T.Tensor(8).shape == (8,)
    with pytest.raises(TensorShapeError, match="strides"):
        T.StridedTensor((4, 8), (1,), "float16")


def test_large_dimensions_are_64_bit():
    @T.prim_func
    def kernel(A: T.Tensor((2**31 + 64, 2), T.uint8)):
        with T.Kernel(1, threads=32):
            A[2**31 + 3, 0] = 1

    assert [str(extent.ty.dtype) for extent in kernel.params[0].shape] == ["int64", "int64"]


def test_pointers_and_made_tensors():
    @T.prim_func
    def kernel(p: T.ptr("float32"), n: T.int32):
        A = T.make_tensor(p, (n, 4), "float32")
        with T.Kernel(1, threads=32):
            A[0, 1] = 1.0

    assert any(isinstance(stmt, S.DeclBuffer) for stmt in statements(kernel.body))


def test_a_prim_func_is_not_called_from_another(refused):
    @T.prim_func
    def inner(A: Ints):
        with T.Kernel(1, threads=32):
            A[0] = 1

    with refused(CallSignatureError, at="inner(A)", naming=("T.macro",)):

        @T.prim_func
        def outer(A: Ints):
            inner(A)


def test_a_call_that_a_language_function_does_not_take(refused):
    with refused(CallSignatureError, at="T.clear()", naming=("clear",)):

        @T.prim_func
        def kernel(A: Ints):
            with T.Kernel(1, threads=32):
                T.clear()


def test_a_wrong_call_of_a_function_of_the_user_s_with_a_name_of_the_language():
    def clear(buffer):
        T.clear(buffer)

    with pytest.raises(TypeError, match="missing 1 required"):

        @T.prim_func
        def kernel(A: Ints):
            with T.Kernel(1, threads=32):
                clear()


def test_annotations_as_strings_see_the_factorys_names():
    def factory(extent, dtype):
        @T.prim_func
        def kernel(A: "T.Tensor((extent,), dtype)"):
            with T.Kernel(1, threads=32):
                A[0] = 1

        return kernel

    assert int(factory(5, "int8").params[0].shape[0]) == 5
    assert int(factory(6, "int8").params[0].shape[0]) == 6


@pytest.mark.parametrize("decorate", [T.prim_func, T.macro])
def test_only_functions_are_decorated(decorate):
    with pytest.raises(ParameterError, match="decorates a function"):
        decorate(40)


def test_attributes_that_values_do_not_have(refused):
    from tile_core.errors import ValueAttributeError

    with refused(ValueAttributeError, at="A.sum()", naming=("A", "sum")):

        @T.prim_func
        def kernel(A: Ints):
            with T.Kernel(1, threads=32):
                A[0] = A.sum()

    assert issubclass(ValueAttributeError, AttributeError)


def test_a_name_that_this_package_does_not_have(refused):
    """It is the author's mistake, and the name may be one of the language."""
    from tile_core.errors import ValueAttributeError

    with refused(ValueAttributeError, at="tl.exp", naming=("'exp'", "T.exp")):

        @T.prim_func
        def kernel(A: Ints):
            with T.Kernel(1, threads=32):
                A[0] = tl.exp(A[0])

    with refused(ValueAttributeError, at="tl.compil", naming=("did you mean compile",)):

        @T.prim_func
        def kernel2(A: Ints):
            with T.Kernel(1, threads=32):
                A[0] = tl.compil(A[0])


def test_names_of_the_language_are_not_those_of_the_package():
    with pytest.raises(AttributeError, match=r"it is T\.prim_func of `import tile_core\.language as T`"):
        tl.prim_func


def test_a_kernel_without_its_grid(refused):
    from tile_core.errors import LoopUseError

    with refused(LoopUseError, at="with T.Kernel:", naming=("T.Kernel(...)",)):

        @T.prim_func
        def kernel(A: Ints):
            with T.Kernel:
                A[0] = 1

    with refused(LoopUseError, at="with A:", naming=("context manager",)):

        @T.prim_func
        def kernel2(A: Ints):
            with A:
                A[0] = 1


def test_a_program_is_no_kernel(refused):
    from tile_core.errors import NotAKernelError

    @T.prim_func
    def program(A: Ints):
        with T.Kernel(1, threads=32):
            A[0] = 1

    with refused(NotAKernelError, at="program(", naming=("program", "tl.compile(program)")):
        program(torch.zeros(8, dtype=torch.int32))
    assert isinstance(program, tirx.PrimFunc)


def test_a_mistyped_keyword_is_named(refused):
    with refused(CallSignatureError, at="T.Pipelined(4, stages=2)", naming=("did you mean", "num_stages")):

        @T.prim_func
        def kernel(A: Ints):
            with T.Kernel(1, threads=32):
                for i in T.Pipelined(4, stages=2):
                    A[i] = 1


def test_errors_outside_of_a_trace_have_the_callers_line():
    for make in (
        lambda: T.Tensor((2.5,), "int8"),
        lambda: T.alloc_shared((3,), "int8"),
        lambda: T.serial(0, 4, 0),
        lambda: T.dynamic("3x"),
    ):
        with pytest.raises(tl.errors.TileError) as caught:
            make()
        assert caught.value.span is not None
        assert caught.value.span.file == __file__


def test_loops_and_kernels_in_each_others_place(refused):
    from tile_core.errors import LoopUseError

    with refused(LoopUseError, at="with T.serial(4)", naming=("for",)):

        @T.prim_func
        def kernel(A: Ints):
            with T.serial(4):
                A[0] = 1

    with refused(LoopUseError, at="for bx in T.Kernel(4)", naming=("with",)):

        @T.prim_func
        def kernel2(A: Ints):
            for bx in T.Kernel(4):
                A[bx] = 1


def test_scalars_of_every_dtype():
    from tile_core.dtypes import EXPORTED_NAMES, DType

    kinds = {str(DType(name)) for name in EXPORTED_NAMES if DType(name).lanes == 1}
    for kind in sorted(kinds):

        def kernel(A, x):
            with T.Kernel(1, threads=32):
                A[0] = x

        kernel.__annotations__ = {"A": T.Tensor((4,), kind), "x": DType(kind)}
        func = T.prim_func(kernel)
        assert func.params[1].name == "x", kind


def test_an_annotation_whose_own_expression_fails_is_refused():
    with pytest.raises(ParameterError, match=r"annotation `T\.Tensor\(\(T \* 2,\)"):

        @T.prim_func
        def kernel(A: T.Tensor((T * 2,), T.int32)):
            pass

    @T.macro
    def helper(x: T * 2):
        return x

    @T.prim_func
    def uses_it(A: T.Tensor((1,), T.int32)):
        with T.Kernel(1):
            A[0] = helper(3)


def test_parallel_loops_alone_in_each_other_are_one_nest():
    @T.prim_func
    def kernel(A: T.Tensor((2, 3, 5), T.int32)):
        with T.Kernel(1):
            for i in T.Parallel(2):
                for j, k in T.Parallel(3, 5):
                    A[i, j, k] = i * 100 + j * 10 + k

    loops = [stmt for stmt in statements(kernel.body) if isinstance(stmt, S.For) and stmt.kind == S.ForKind.PARALLEL]
    assert [dict(loop.annotations) for loop in loops] == [{"tile.parallel": 3}, {}, {}]


def test_a_scope_that_is_no_string_is_refused():
    with pytest.raises(ParameterError, match="scope of a tensor"):
        T.StridedTensor((8, 4), (4, 1), T.int32, (8, 4))
