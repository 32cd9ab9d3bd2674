"""Printing and assertions of kernels, emulated: what appears, once or a thread, and the error at the author's line."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tile_core as tl
import tile_cuda.language as T
from tile_core.errors import DeviceAssertError

EMULATED = {"target": "cuda", "execution": "emulate"}


@T.prim_func
def block(A: T.Tensor((2, 2), "int32"), H: T.Tensor((4,), "float16"), x: T.float32):
    """One program a block: everything is printed once."""
    with T.Kernel(1, threads=64):
        tile = T.alloc_fragment((2, 2), "float32")
        T.fill(tile, 1.5)
        T.print(A, "100%")
        T.print(tile[0:1, :])
        T.print(H[1], 'half "1"')
        T.print(x)
        T.print(msg="done")


@T.prim_func
def threads(A: T.Tensor((3,), "int64"), B: T.Tensor((3,), "bool")):
    """The program of one thread: values and a thread's own memory are printed by each."""
    with T.Kernel(1, threads=3):
        t = T.get_thread_binding()
        own = T.alloc_local((2,), "int8")
        own[0] = T.cast(t, "int8") - 1
        own[1] = 7
        T.print(own)
        T.print(A[t])
        T.print(B, "all")


@pytest.mark.emulate
def test_a_block_prints_once(capfd: pytest.CaptureFixture[str]) -> None:
    tl.compile(block, **EMULATED)(np.arange(4, dtype="int32").reshape(2, 2), np.full(4, 0.5, "float16"), 0.1)
    assert capfd.readouterr().out.splitlines() == [
        *(f"100%: A[{i}, {j}] = {2 * i + j}" for i in range(2) for j in range(2)),
        *(f"tile[0, {j}] = 1.5" for j in range(2)),
        'half "1": H = 0.5',
        "x = 0.1",
        "done",
    ]


@pytest.mark.emulate
def test_threads_print_what_is_their_own(capfd: pytest.CaptureFixture[str]) -> None:
    values = np.array([-(1 << 40), 0, 1 << 62], "int64")
    tl.compile(threads, **EMULATED)(values, np.array([True, False, True]))
    lines = capfd.readouterr().out.splitlines()
    expected = [f"A = {value}" for value in values] + [f"own[0] = {t - 1}" for t in range(3)] + ["own[1] = 7"] * 3
    assert sorted(lines) == sorted([*expected, "all: B[0] = True", "all: B[1] = False", "all: B[2] = True"])


@pytest.mark.emulate
def test_the_interpreter_prints_for_the_same_threads(capfd: pytest.CaptureFixture[str]) -> None:
    tl.compile(threads, target="interpret")(np.arange(3), np.array([True, False, True]))
    text = capfd.readouterr().out
    assert text.count("own, shape (2,)") == 3
    assert text.count("A = ") == 3
    assert text.count("all: B, shape (3,)") == 1


def failing(body: Any) -> Any:
    @T.prim_func
    def kernel(A: T.Tensor((64,), "int32")):
        with T.Kernel(2, threads=64):
            t = T.get_thread_binding()
            body(A, t)
            A[t] = 1

    return kernel


@pytest.mark.emulate
@pytest.mark.parametrize("target", ["interpret", "cuda"])
def test_a_failed_assertion_is_an_error_at_its_line(target: str) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((64,), "int32")):
        with T.Kernel(2, threads=64):
            t = T.get_thread_binding()
            T.device_assert(A[t] < 5, "too large")
            A[t] = 1

    a = np.zeros(64, "int32")
    a[40] = 6
    options = {"execution": "emulate"} if target == "cuda" else {}
    with pytest.raises(DeviceAssertError, match="too large") as raised:
        tl.compile(kernel, target=target, **options)(a)
    assert raised.value.span is not None
    assert "T.device_assert(A[t] < 5" in raised.value.span.render()
    a[40] = 0
    tl.compile(kernel, target=target, **options)(a)
    assert (a == 1).all()


@pytest.mark.emulate
def test_an_assert_statement_names_the_thread() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((64,), "int32")):
        with T.Kernel(2, threads=(32, 2)):
            x, y, _z = T.get_thread_bindings()
            assert A[y * 32 + x] == 0
            A[y * 32 + x] = 0

    a = np.zeros(64, "int32")
    a[35] = 1
    with pytest.raises(DeviceAssertError, match=r"thread \(3, 1, 0\) of block \(0, 0, 0\)"):
        tl.compile(kernel, **EMULATED)(a)


@pytest.mark.emulate
def test_without_stack_info_there_is_no_line() -> None:
    with pytest.raises(DeviceAssertError, match="silent") as raised:
        tl.compile(failing(lambda A, t: T.device_assert(t < 0, "silent", no_stack_info=True)), **EMULATED)(
            np.zeros(64, "int32")
        )
    assert raised.value.span is None


@pytest.mark.compile
def test_they_compile(build: Any) -> None:
    assert "__assertfail" in build(failing(lambda A, t: T.device_assert(A[t] < 5, "too large")))
    assert "printf(" in build(block)
    build(threads)
