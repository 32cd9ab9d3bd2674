"""Kernels for 64-bit Arm under QEMU: what reaches them, what comes back, and how they end."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import tile_core as tl
import tile_core.language as T
from tile_core.errors import (
    ArgumentDtypeError,
    DeviceAssertError,
    EmulatorCompilerError,
    EmulatorRunError,
    UnsupportedOnTargetError,
)
from tile_core.jit.host import ArgumentRefused
from tile_cpu import emulator
from tile_cpu.emulator import messages
from tile_cpu.target import parse_target

ARM = {"kind": "cpu", "arch": "armv8-a"}
MISSING = emulator.missing_tools(parse_target("cpu", {"arch": "armv8-a"}))

here = pytest.mark.skipif(MISSING != "", reason=f"there is no {MISSING}")


def compiled(func, **options):
    return tl.compile(func, target=ARM, execution="emulate", **options)


@pytest.fixture(scope="module")
def double():
    n = T.dynamic("n")

    @T.prim_func
    def kernel(A: T.StridedTensor((n, 5), (T.dynamic("s"), T.dynamic("t")), "int32"), B: T.Tensor((n, 5), "int32")):
        with T.Kernel(T.ceildiv(n, 3), threads=32) as bx:
            for i, j in T.Parallel(3, 5):
                if bx * 3 + i < n:
                    B[bx * 3 + i, j] = A[bx * 3 + i, j] * 2

    return compiled(kernel)


@here
def test_tensors_at_any_place(double):
    """Views, numpy arrays, tensors that share memory, an address that only an element is aligned to, no element."""
    whole = torch.arange(200, dtype=torch.int32).reshape(10, 20)
    before = whole.clone()
    double(whole[1:9:2, 3:18:3], out := torch.full((4, 5), 99, dtype=torch.int32))
    assert torch.equal(out, before[1:9:2, 3:18:3] * 2)
    assert torch.equal(whole, before)
    array = np.arange(10, dtype=np.int32).reshape(2, 5)
    double(array, made := np.full((2, 5), 99, np.int32))
    assert np.array_equal(made, array * 2)
    shared = torch.arange(21, dtype=torch.int32)
    double(shared[1:].view(4, 5), shared[1:].view(4, 5))
    assert shared.tolist() == [0, *(2 * value for value in range(1, 21))]
    double(torch.zeros(0, 5, dtype=torch.int32), torch.zeros(0, 5, dtype=torch.int32))


@here
def test_arguments_are_checked_by_the_compiled_code(double):
    """The explanation comes from here, the refusal from there, too."""
    wrong = torch.zeros(4, 5), torch.zeros(4, 5, dtype=torch.int32)
    with pytest.raises(ArgumentDtypeError):
        double(*wrong)
    with pytest.raises(ArgumentRefused):
        double.run(*wrong)
    short = torch.zeros(4, 5, dtype=torch.int32), torch.zeros(3, 5, dtype=torch.int32)
    with pytest.raises(ArgumentRefused):
        double.run(*short)


@here
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_blocks_over_threads(monkeypatch, threads):
    """Every block runs once, whichever thread takes it, with memory of its own; the last launch sees the first."""
    monkeypatch.setenv("TILE_NUM_THREADS", str(threads))
    blocks, size = 37, 4096

    @T.prim_func
    def kernel(
        A: T.Tensor((blocks, size), "float32"), Sums: T.Tensor((blocks,), "float32"), Count: T.Tensor((1,), "int32")
    ):
        with T.Kernel(blocks, threads=32) as bx:
            tile = T.alloc_shared((size,), "float32")
            total = T.alloc_fragment((1,), "float32")
            T.copy(A[bx, 0], tile)
            for i in T.Parallel(size):
                tile[i] = tile[i] + 1.0
            T.reduce_sum(tile, total, dim=0)
            T.copy(tile, A[bx, 0])
            Sums[bx] = total[0]
            T.atomic_add(Count[0], 1)
        with T.Kernel(1, threads=32):
            Count[0] = Count[0] + T.cast(A[blocks - 1, size - 1], "int32")

    a = torch.arange(blocks, dtype=torch.float32).repeat_interleave(size).view(blocks, size)
    sums, count = torch.full((blocks,), 9.0), torch.zeros(1, dtype=torch.int32)
    compiled(kernel)(a, sums, count)
    assert torch.equal(a[:, 7], torch.arange(1.0, blocks + 1))
    assert torch.equal(sums, torch.arange(1.0, blocks + 1) * size)
    assert count.item() == blocks + blocks


@here
def test_prints_and_assertions(capfd):
    @T.prim_func
    def kernel(A: T.Tensor((3,), "float32"), n: T.int32, x: T.float16, flag: T.bool):
        with T.Kernel(1):
            for i in T.serial(3):
                T.print(A[i], msg="value")
            T.print(n)
            T.print(flag)
            A[0] = x
            T.device_assert(n > 0, "n is positive")
            A[1] = x

    run = compiled(kernel)
    a = torch.tensor([0.1, float("-inf"), float("nan")])
    run(a, 7, -2.5, True)
    emulated = capfd.readouterr().out
    assert a[:2].tolist() == [-2.5, -2.5]
    a = torch.tensor([0.1, float("-inf"), float("nan")])
    tl.compile(kernel, target="cpu")(a, 7, -2.5, True)
    assert emulated == capfd.readouterr().out
    assert emulated.count("\n") == 5
    a = torch.zeros(3)
    with pytest.raises(DeviceAssertError, match="n is positive") as raised:
        run(a, -1, 1.0, False)
    assert raised.value.span is not None
    assert a.tolist() == [1.0, 0.0, 0.0]


@here
def test_outputs_are_returned():
    @T.prim_func
    def kernel(A: T.Tensor((40,), "bfloat16"), B: T.Tensor((40,), "bfloat16")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(40):
                B[i] = A[i] + 1.0

    a = torch.randn(40).bfloat16()
    assert torch.equal(compiled(kernel, out_idx=-1)(a), a + 1)


@here
def test_functions_of_the_c_library_are_there_and_no_others():
    def calling(name):
        @T.prim_func
        def kernel(A: T.Tensor((4,), "float32")):
            with T.Kernel(1):
                for i in T.serial(4):
                    A[i] = T.call_extern("float32", name, A[i])

        return kernel

    a = torch.tensor([1.0, 8.0, 27.0, -64.0])
    compiled(calling("cbrtf"))(a)
    torch.testing.assert_close(a, torch.tensor([1.0, 2.0, 3.0, -4.0]))
    with pytest.raises(EmulatorCompilerError, match="no library has of_nobody"):
        compiled(calling("of_nobody"))


@here
def test_a_process_that_ends_is_told():
    @T.prim_func
    def kernel(A: T.Tensor((4,), "float32")):
        with T.Kernel(1):
            T.call_extern("int32", "raise", 8)
            A[0] = 1.0

    with pytest.raises(EmulatorRunError, match="status"):
        compiled(kernel)(torch.zeros(4))


@here
def test_an_address_of_this_process_is_refused():
    @T.prim_func
    def kernel(P: T.ptr, n: T.int32):
        with T.Kernel(1):
            A = T.make_tensor(P, (4,), "float32")
            A[0] = n

    run, a = compiled(kernel), torch.zeros(4)
    run(a, 3)
    assert a.tolist() == [3.0, 0.0, 0.0, 0.0]


def test_tensors_too_large_to_be_sent(monkeypatch):
    import tvm_ffi

    monkeypatch.setattr(messages, "LARGEST", 100)
    tensor = tvm_ffi.from_dlpack(torch.zeros(26))
    with pytest.raises(EmulatorRunError, match="104 bytes"):
        messages.request_of([tensor], 1)
    messages.request_of([tvm_ffi.from_dlpack(torch.zeros(25))], 1)


def test_an_address_has_no_meaning_elsewhere():
    import ctypes

    with pytest.raises(UnsupportedOnTargetError, match="address"):
        messages.request_of([ctypes.c_void_p(64)], 1)


def test_without_the_tools_what_is_missing_is_named(monkeypatch):
    monkeypatch.setattr("shutil.which", lambda name: None if name.startswith("qemu") else f"/bin/{name}")
    target = parse_target("cpu", {"arch": "armv8-a"})
    assert emulator.missing_tools(target) == "qemu-aarch64"
    monkeypatch.setattr("platform.system", lambda: "Darwin")
    assert "Linux" in emulator.missing_tools(target)


def test_a_kernel_for_this_machine_runs_on_it(monkeypatch):
    monkeypatch.setattr("shutil.which", lambda name: None)

    @T.prim_func
    def kernel(A: T.Tensor((4,), "float32")):
        with T.Kernel(1):
            A[3] = 1.0

    a = torch.zeros(4)
    tl.compile(kernel, target="cpu", execution="emulate")(a)
    assert a.tolist() == [0.0, 0.0, 0.0, 1.0]
