"""Calling compiled kernels: memory, threads, processes."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import threading
from typing import Any

import numpy as np
import pytest
import torch

import tile_core as tl
import tile_core.language as T
from tile_core.errors import SettingError, UnsupportedOnTargetError
from tile_core.settings import settings
from tile_cpu import runtime


def add_one(dtype: str = "float32", block: int = 64) -> Any:
    n = T.dynamic("n")

    @T.prim_func
    def kernel(A: T.Tensor((n,), dtype), B: T.Tensor((n,), dtype)):
        with T.Kernel(T.ceildiv(n, block)) as bx:
            tile = T.alloc_shared((block,), dtype)
            T.copy(A[bx * block], tile)
            for i in T.Parallel(block):
                tile[i] = tile[i] + 1
            T.copy(tile, B[bx * block])

    return kernel


@pytest.mark.parametrize("size", [0, 1, 63, 64, 65, 127, 100_003])
def test_any_size_and_nothing_behind_it(size: int) -> None:
    a = torch.randn(size + 3)
    b = torch.full((size + 3,), 7.0)
    tl.compile(add_one(), target="cpu")(a[:size], b[:size])
    assert torch.equal(b[:size], a[:size] + 1)
    assert torch.equal(b[size:], torch.full((3,), 7.0))


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int8", "float64"])
@pytest.mark.parametrize("offset", [1, 3])
def test_tensors_that_begin_anywhere(dtype: str, offset: int) -> None:
    kind = getattr(torch, dtype)
    a = torch.arange(1000, dtype=torch.int32).remainder(100).to(kind)
    b = torch.zeros(1000, dtype=kind)
    tl.compile(add_one(dtype), target="cpu")(a[offset:], b[offset:])
    assert torch.equal(b[offset:], (a + 1)[offset:])
    assert not b[:offset].any()


def test_in_place() -> None:
    n = T.dynamic("n")

    @T.prim_func
    def reverse_in_tiles(A: T.Tensor((n,), "int32"), B: T.Tensor((n,), "int32")):
        with T.Kernel(T.ceildiv(n, 64)) as bx:
            tile = T.alloc_shared((64,), "int32")
            T.copy(A[bx * 64], tile)
            for i in T.Parallel(64):
                B[bx * 64 + i] = tile[63 - i]

    a = torch.arange(640, dtype=torch.int32)
    tl.compile(reverse_in_tiles, target="cpu")(a, a)
    assert torch.equal(a, torch.arange(640, dtype=torch.int32).view(10, 64).flip(1).flatten())


def test_two_arguments_may_be_one_tensor() -> None:
    """A store through one argument is seen by a load through the other: nothing is assumed about overlap."""

    @T.prim_func
    def running(A: T.Tensor((256,), "int32"), B: T.Tensor((256,), "int32")):
        with T.Kernel(1):
            for i in T.serial(255):
                B[i + 1] = A[i] + 1

    a = torch.zeros(256, dtype=torch.int32)
    tl.compile(running, target="cpu")(a, a)
    assert torch.equal(a, torch.arange(256, dtype=torch.int32))


def test_views_of_a_tile_share_its_memory() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "int32"), C: T.Tensor((64,), "float32")):
        with T.Kernel(1):
            tile = T.alloc_shared((64,), "float32")
            bits = T.view(tile, (64,), dtype="int32")
            for i in T.serial(64):
                tile[i] = A[i]
                B[i] = bits[i]
                bits[i] = B[i] + 1
                C[i] = tile[i]

    a, b, c = torch.randn(64), torch.zeros(64, dtype=torch.int32), torch.zeros(64)
    tl.compile(kernel, target="cpu")(a, b, c)
    assert torch.equal(b, a.view(torch.int32))
    assert torch.equal(c.view(torch.int32), a.view(torch.int32) + 1)


def test_numpy_arrays_in_place() -> None:
    a, b = np.arange(1000, dtype=np.float32), np.zeros(1000, np.float32)
    tl.compile(add_one(), target="cpu")(a, b)
    assert np.array_equal(b, a + 1)


def test_large_tiles_live_in_the_workspace() -> None:
    kernel = tl.compile(add_one(block=1 << 16), target="cpu")
    assert "workspace" in str(kernel.report())
    a, b = torch.randn(200_001), torch.zeros(200_001)
    kernel(a, b)
    assert torch.equal(b, a + 1)


def test_calls_from_several_threads_at_once() -> None:
    kernel = tl.compile(add_one(), target="cpu")
    inputs = [torch.randn(50_000) for _ in range(6)]
    outputs = [torch.zeros(50_000) for _ in inputs]

    def work(a: torch.Tensor, b: torch.Tensor) -> None:
        for _ in range(20):
            kernel(a, b)

    workers = [threading.Thread(target=work, args=pair) for pair in zip(inputs, outputs, strict=True)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
        assert not worker.is_alive()
    assert all(torch.equal(b, a + 1) for a, b in zip(inputs, outputs, strict=True))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_child_can_call_kernels() -> None:
    code = """
        import os, signal, torch, tile_core as tl, tile_core.language as T
        @T.prim_func
        def kernel(A: T.Tensor((100000,), "float32")):
            with T.Kernel(100) as bx:
                for i in T.Parallel(1000):
                    A[bx * 1000 + i] = A[bx * 1000 + i] + 1.0
        run = tl.compile(kernel, target="cpu")
        a = torch.zeros(100000)
        run(a)
        pid = os.fork()
        if pid == 0:
            signal.alarm(30)
            run(a)
            tl.compile(kernel, target="cpu")(a)
            os._exit(0 if (a.numpy() == 3).all() else 1)  # torch itself cannot use its threads in a child
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        assert bool((a == 1).all())
    """
    _in_a_process(code)


def test_kernels_run_without_torch() -> None:
    code = """
        import os, sys
        sys.modules["torch"] = None  # as where it is not installed
        import numpy as np, tile_core as tl, tile_core.language as T
        @T.prim_func
        def kernel(A: T.Tensor((100000,), "float32")):
            with T.Kernel(100) as bx:
                for i in T.Parallel(1000):
                    A[bx * 1000 + i] = A[bx * 1000 + i] + 1.0
        a = np.zeros(100000, np.float32)
        before = os.sched_getaffinity(0)
        tl.compile(kernel, target="cpu")(a)
        assert (a == 1).all()
        assert os.sched_getaffinity(0) == before, "the calling thread was pinned"
    """
    _in_a_process(code)


def _in_a_process(code: str, **environment: str) -> None:
    """Run `code` from a file: kernels need their source."""
    import tempfile
    from pathlib import Path

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "program.py"
        path.write_text(textwrap.dedent(code), "utf-8")
        done = subprocess.run(
            [sys.executable, str(path)],
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("compiler", ["", "/nowhere/c++", "'"])
def test_no_compiler_is_asked_for(monkeypatch: pytest.MonkeyPatch, compiler: str) -> None:
    monkeypatch.setenv("CXX", compiler)
    monkeypatch.setenv("PATH", "")
    a, b = torch.randn(100), torch.zeros(100)
    with settings.override(cache=False):
        tl.compile(add_one(block=37), target="cpu")(a, b)
    assert torch.equal(b, a + 1)


@pytest.mark.parametrize("text", ["0", "-1", "two", "1.5"])
def test_a_number_of_threads_that_is_none(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("TILE_NUM_THREADS", text)
    with pytest.raises(SettingError, match="TILE_NUM_THREADS"):
        tl.compile(add_one(), target="cpu")


@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_any_number_of_threads(count: int) -> None:
    a, b = torch.randn(10_007), torch.zeros(10_007)
    with settings.override(num_threads=count):
        tl.compile(add_one(block=61), target="cpu")(a, b)
    assert torch.equal(b, a + 1)


def test_the_setting_of_torch_counts() -> None:
    before = torch.get_num_threads()
    kernel = tl.compile(add_one(), target="cpu")
    a, b = torch.randn(10_007), torch.zeros(10_007)
    try:
        for count in (1, 2, 4):
            torch.set_num_threads(count)
            b.zero_()
            kernel(a, b)
            assert torch.equal(b, a + 1)
    finally:
        torch.set_num_threads(before)


def test_every_core_counts() -> None:
    assert runtime.available_cores() == len(os.sched_getaffinity(0))


@pytest.mark.parametrize("name", ["fabsf", "no_such_function_at_all"])
def test_a_function_of_the_author_must_be_in_the_process(name: str) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((4,), "float32")):
        with T.Kernel(1):
            A[0] = T.call_pure_extern("float32", name, A[1])

    a = torch.tensor([0.0, -2.5, 0.0, 0.0])
    if name == "fabsf":
        tl.compile(kernel, target="cpu")(a)
        assert a[0] == 2.5
        return
    with pytest.raises(UnsupportedOnTargetError, match=name):
        tl.compile(kernel, target="cpu")(a)
