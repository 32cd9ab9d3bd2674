"""Calls of compiled kernels: arguments, outputs, sizes of 0, the cache across processes."""

from __future__ import annotations

import linecache
import subprocess
import sys
import textwrap

import ml_dtypes
import numpy as np
import pytest
import torch

import tile_core as tl
import tile_core.language as T
from tile_core import errors


def add_program(n, dtype="float32", block=64):
    @T.prim_func
    def add(A: T.Tensor((n,), dtype), B: T.Tensor((n,), dtype), C: T.Tensor((n,), dtype)):
        with T.Kernel(T.ceildiv(n, block)) as bx:
            for i in T.Parallel(block):
                C[bx * block + i] = A[bx * block + i] + B[bx * block + i]

    return add


@tl.jit(target="cpu")
def add_eager(A, B, C, block=64):
    n = T.const("n")
    A: T.Tensor((n,), "float32")
    B: T.Tensor((n,), "float32")
    C: T.Tensor((n,), "float32")
    with T.Kernel(T.ceildiv(n, block)) as bx:
        for i in T.Parallel(block):
            C[bx * block + i] = A[bx * block + i] + B[bx * block + i]


@pytest.fixture(scope="module")
def add():
    return tl.compile(add_program(8), target="cpu")


@pytest.fixture(scope="module")
def add_any():
    return tl.compile(add_program(T.dynamic("n")), target="cpu", out_idx=-1)


@pytest.mark.parametrize("n", [0, 1, 7, 64, 65, 1000])
def test_any_size_with_one_kernel(add_any, n):
    a, b = torch.rand(n), torch.rand(n)
    assert torch.equal(add_any(a, b), a + b)
    np.testing.assert_array_equal(add_any(a.numpy(), b.numpy()), (a + b).numpy())


@pytest.mark.parametrize("n", [0, 1, 7, 8, 1000])
def test_any_size_eagerly(n):
    a, b, c = torch.rand(n), torch.rand(n), torch.full((n,), float("nan"))
    assert add_eager(a, b, c) is None
    assert torch.equal(c, a + b)


def test_an_eager_call_after_one_of_another_size_or_library():
    for n in (5, 6, 5, 5):
        a, b = torch.rand(n), torch.rand(n)
        out = np.full(n, np.nan, dtype=np.float32)
        add_eager(a, b.numpy(), out)
        np.testing.assert_array_equal(out, (a + b).numpy())
        add_eager(a, b, torch.from_numpy(out), block=32)
    with pytest.raises(errors.ArgumentShapeError, match="`C`.*is 4, expected 5"):
        add_eager(torch.rand(5), torch.rand(5), torch.rand(4))
    with pytest.raises(errors.ArgumentDtypeError, match="`B`"):
        add_eager(torch.rand(5), torch.rand(5).double(), torch.rand(5))


CALLS = {
    "count": (lambda a: (a, a), errors.ArgumentCountError, "takes 3 arguments, 2 were given"),
    "shape": (lambda a: (a, a, a[:3]), errors.ArgumentShapeError, "`C`.*is 3, expected 8"),
    "rank": (lambda a: (a, a[None], a), errors.ArgumentRankError, "`B`"),
    "dtype": (lambda a: (a, a.double(), a), errors.ArgumentDtypeError, "`B`.*float32, got float64"),
    "strides": (lambda a: (a, torch.rand(16)[::2], a), errors.ArgumentLayoutError, "`B`.*contiguous"),
    "device": (lambda a: (a, a.to("meta"), a), errors.ArgumentDeviceError, "`B`.*on cpu, got one on meta"),
    "a list": (lambda a: (a, [1.0] * 8, a), errors.ArgumentTypeError, "`B`.*list"),
    "None": (lambda a: (None, a, a), errors.MissingArgumentError, "`A`"),
}


@pytest.mark.parametrize("case", CALLS)
def test_a_wrong_argument_is_named_before_anything_runs(add, case):
    make, kind, pattern = CALLS[case]
    a = torch.rand(8)
    before = a.clone()
    with pytest.raises(kind, match=pattern) as caught:
        add(*make(a))
    assert torch.equal(a, before)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__


def test_a_batch_of_one_has_any_strides():
    @T.prim_func
    def double(A: T.Tensor((1, 4), "float32"), B: T.Tensor((1, 4), "float32")):
        with T.Kernel(1) as _:
            for j in T.serial(4):
                B[0, j] = A[0, j] * 2

    kernel = tl.compile(double, target="cpu", out_idx=-1)
    whole = torch.rand(8, 4)
    expected = whole[:1] * 2
    for a in (whole[:1], whole[::8], whole[0].expand(1, 4), whole[:1].as_strided((1, 4), (77, 1))):
        assert torch.equal(kernel(a), expected)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64", "int8", "uint8", "int32", "int64"])
def test_dtypes_of_both_libraries(dtype):
    kernel = tl.compile(add_program(100, dtype), target="cpu", out_idx=-1)
    a, b = (torch.randint(0, 10, (100,)).to(getattr(torch, dtype)) for _ in range(2))
    assert torch.equal(kernel(a, b), a + b)
    kind = ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype
    x, y = (t.float().numpy().astype(kind) for t in (a, b))
    result = kernel(x, y)
    assert result.dtype == x.dtype
    np.testing.assert_array_equal(result.astype(np.float64), (a + b).double().numpy())


def test_numpy_bfloat16_is_written_in_place():
    kernel = tl.compile(add_program(10, "bfloat16"), target="cpu")
    x = np.arange(10).astype(ml_dtypes.bfloat16)
    out = np.zeros(10, dtype=ml_dtypes.bfloat16)
    kernel(x, x, out)
    np.testing.assert_array_equal(out.astype(np.float32), np.arange(10) * 2.0)


def test_read_only_inputs_and_outputs(add):
    a = np.arange(8, dtype=np.float32)
    a.flags.writeable = False
    out = np.zeros(8, dtype=np.float32)
    add(a, a, out)
    np.testing.assert_array_equal(out, a * 2)
    with pytest.raises(errors.ReadOnlyArgumentError, match="`C`"):
        add(out, out, a)


def test_none_for_a_tensor_that_is_not_used():
    @T.prim_func
    def copy(A: T.Tensor((8,), "float32"), unused: T.Tensor((8,), "float32"), B: T.Tensor((8,), "float32")):
        with T.Kernel(1) as _:
            for i in T.serial(8):
                B[i] = A[i]

    kernel = tl.compile(copy, target="cpu")
    a, b = torch.rand(8), torch.zeros(8)
    kernel(a, None, b)
    assert torch.equal(a, b)
    with pytest.raises(errors.MissingArgumentError, match="`A`"):
        kernel(None, a, b)


def test_scalars_of_every_dtype():
    names = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "bfloat16", "float32")

    @T.prim_func
    def store(
        i8: T.int8,
        i16: T.int16,
        i32: T.int32,
        i64: T.int64,
        u8: T.uint8,
        u16: T.uint16,
        u32: T.uint32,
        u64: T.uint64,
        f16: T.float16,
        bf16: T.bfloat16,
        f32: T.float32,
        Out: T.Tensor((11,), "float64"),
    ):
        with T.Kernel(1) as _:
            Out[0] = T.cast(i8, "float64")
            Out[1] = T.cast(i16, "float64")
            Out[2] = T.cast(i32, "float64")
            Out[3] = T.cast(i64, "float64")
            Out[4] = T.cast(u8, "float64")
            Out[5] = T.cast(u16, "float64")
            Out[6] = T.cast(u32, "float64")
            Out[7] = T.cast(u64, "float64")
            Out[8] = T.cast(f16, "float64")
            Out[9] = T.cast(bf16, "float64")
            Out[10] = T.cast(f32, "float64")

    kernel = tl.compile(store, target="cpu", out_idx=-1)
    values = (-128, -32768, -(2**31), -(2**53), 255, 65535, 2**32 - 1, 2**53, 1.5, 1.5, -2.25)
    assert kernel(*values).tolist() == list(values)
    assert len(values) == len(names)
    with pytest.raises(errors.ArgumentValueError, match="`i8`.*-129 does not fit int8"):
        kernel(-129, *values[1:])
    assert kernel(*values[:-1], 2**64)[10] == 2.0**64
    assert kernel(*values[:-1], np.bool_(True))[10] == 1
    with pytest.raises(errors.ArgumentValueError, match="`f32`.*beyond every value of float32"):
        kernel(*values[:-1], 10**400)
    with pytest.raises(errors.ArgumentValueError, match="`u64`.*does not fit uint64"):
        kernel(*values[:7], 2**64, *values[8:])


def test_a_byte_order_that_is_not_the_machines(add):
    a = np.ones(8, dtype=np.float32)
    with pytest.raises(errors.ArgumentDtypeError, match="`B`.*expected dtype float32"):
        add(a, a.astype(a.dtype.newbyteorder()), a)


def test_a_kernel_without_arguments_and_one_without_statements():
    @T.prim_func
    def nothing():
        with T.Kernel(1) as _:
            pass

    @T.prim_func
    def idle(A: T.Tensor((4,), "float32")):
        with T.Kernel(2) as _:
            pass

    tl.compile(nothing, target="cpu")()
    a = torch.rand(4)
    before = a.clone()
    tl.compile(idle, target="cpu")(a)
    assert torch.equal(a, before)


@pytest.mark.parametrize("blocks", [1, 100])
def test_an_assertion_in_a_kernel(blocks):
    @T.prim_func
    def check(A: T.Tensor((blocks,), "int32"), B: T.Tensor((blocks,), "int32")):
        with T.Kernel(blocks) as bx:
            T.device_assert(A[bx] < 100, "too large")
            assert A[bx] != 50, "fifty"
            T.device_assert(A[bx] >= 0, "negative", no_stack_info=True)
            B[bx] = A[bx]

    kernel = tl.compile(check, target="cpu", out_idx=-1)
    a = torch.arange(blocks, dtype=torch.int32) % 50
    assert torch.equal(kernel(a), a)
    for value, message, line in [(100, "too large", "A[bx] < 100"), (50, "fifty", "!= 50"), (-1, "negative", "")]:
        b = a.clone()
        b[-1] = value
        for call in (kernel, lambda b: kernel.run(*kernel.bind(b))):
            with pytest.raises(errors.DeviceAssertError) as caught:
                call(b)
            assert_at(caught.value, message, line)
    assert torch.equal(kernel(a), a)


def assert_at(error, message, line):
    """The error says `message` and points at a line of this file with `line`; an empty one: at none."""
    assert error.message == message
    assert (error.span is None) is (line == "")
    if error.span is not None:
        assert line in linecache.getline(error.span.file, error.span.line)


def test_an_assertion_in_an_eager_kernel():
    @tl.jit(target="cpu")
    def check(A):
        n = T.const("n")
        A: T.Tensor((n,), "int32")
        with T.Kernel(n) as bx:
            assert A[bx] < 5, "too large"

    a = torch.arange(5, dtype=torch.int32)
    check(a)
    for _ in range(2):
        with pytest.raises(errors.DeviceAssertError) as caught:
            check(a + 1)
        assert_at(caught.value, "too large", "A[bx] < 5")


def test_factories_of_one_name_and_other_closures():
    def build(factor):
        @tl.jit(out_idx=-1, target="cpu")
        def make(n):
            @T.prim_func
            def scale(A: T.Tensor((n,), "float32"), B: T.Tensor((n,), "float32")):
                with T.Kernel(1) as _:
                    for i in T.serial(n):
                        B[i] = A[i] * factor

            return scale

        return make

    a = torch.rand(8)
    for factor in (2.0, 3.0, 2.0):
        assert torch.equal(build(factor)(8)(a), a * factor)


SCRIPT = """
    import sys
    import torch
    import tile_core as tl
    import tile_core.language as T
    import tile_cpu.compiler
    from tile_core.jit import fingerprint

    fingerprint.source_digest = lambda package: ""  # sources may be edited between two processes

    def refuse(*arguments):
        raise SystemExit("compiled again")

    if sys.argv[1] == "warm":
        tile_cpu.compiler.compile_program = refuse

    def build(factor):
        @tl.jit(out_idx=-1, target="cpu")
        def make(n):
            @T.prim_func
            def scale(A: T.Tensor((n,), "float32"), B: T.Tensor((n,), "float32")):
                with T.Kernel(T.ceildiv(n, 64)) as bx:
                    for i in T.Parallel(64):
                        B[bx * 64 + i] = A[bx * 64 + i] * factor
            return scale
        return make

    a = torch.rand(100)
    for factor in (2.0, 3.0):
        kernel = build(factor)(100)
        assert torch.equal(kernel(a), a * factor)
        assert "scale" in kernel.get_kernel_source()
    print("done")
"""


def test_a_second_process_compiles_nothing(tmp_path, monkeypatch):
    path = tmp_path / "script.py"
    path.write_text(textwrap.dedent(SCRIPT))
    monkeypatch.setenv("TILE_CACHE_DIR", str(tmp_path / "cache"))
    for mode in ("cold", "warm"):
        done = subprocess.run([sys.executable, path, mode], capture_output=True, text=True, check=False)
        assert done.stdout == "done\n", done.stderr


def test_several_processes_compile_one_kernel_and_one_is_killed(tmp_path, monkeypatch):
    path = tmp_path / "script.py"
    path.write_text(textwrap.dedent(SCRIPT))
    monkeypatch.setenv("TILE_CACHE_DIR", str(tmp_path / "cache"))
    running = [subprocess.Popen([sys.executable, path, "cold"], stdout=subprocess.PIPE) for _ in range(4)]
    running[3].kill()
    outputs = [process.communicate()[0] for process in running]
    assert outputs[:3] == [b"done\n"] * 3
    entries = [entry for entry in (tmp_path / "cache" / "v1").glob("*/*") if not entry.name.startswith(".")]
    assert len(entries) == 2
