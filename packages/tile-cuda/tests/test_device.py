"""What only a GPU can tell: the conformance suite, streams, graphs, unaligned views, several devices."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

import tile_core as tl
import tile_core.language as T
from tile_core.errors import ArgumentDeviceError, KernelLaunchError
from tile_core.testing import BackendConformance
from tile_cuda.target import detect

_found = detect()
pytestmark = [pytest.mark.device, pytest.mark.skipif(not _found.available, reason=_found.reason)]


class TestGpu(BackendConformance):
    target = "cuda"
    device = "cuda"
    supports = BackendConformance.ALL - {"float8_fnuz", "float8_e8m0fnu"}


def scale(n: int, factor: float = 2.0) -> Any:
    """B = A * factor."""

    @T.prim_func
    def kernel(A: T.Tensor((n,), T.float32), B: T.Tensor((n,), T.float32)):
        with T.Kernel(T.ceildiv(n, 1024), threads=128) as bx:
            for i in T.Parallel(1024):
                B[bx * 1024 + i] = A[bx * 1024 + i] * factor

    return kernel


def test_launches_on_the_current_stream() -> None:
    """A kernel that waits for its stream sees what was enqueued there before it, and nothing else waits for it."""
    n = 1 << 20
    kernel = tl.compile(scale(n), target="cuda")
    a, b = torch.zeros(n, device="cuda"), torch.zeros(n, device="cuda")
    kernel(a, b)
    torch.cuda.synchronize()
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(200_000_000)
        a.fill_(3.0)
        kernel(a, b)
        done = stream.record_event()
    assert not done.query(), "the launch waited, or ran on another stream"
    done.synchronize()
    assert torch.equal(b, torch.full_like(b, 6.0))


def test_is_captured_in_a_graph() -> None:
    n = 5000
    kernel = tl.compile(scale(n), target="cuda")
    a, b = torch.randn(n, device="cuda"), torch.zeros(n, device="cuda")
    kernel(a, b)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        kernel(a, b)
    a.copy_(torch.randn(n))
    b.zero_()
    graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(b, a * 2)


@pytest.mark.parametrize("start", [1, 2, 3, 5])
def test_views_at_any_offset(start: int) -> None:
    n = 4099
    kernel = tl.compile(scale(n), target="cuda")
    a, whole = torch.randn(n + start, device="cuda"), torch.full((n + start + 8,), 7.0, device="cuda")
    kernel(a[start:], whole[start : start + n])
    assert torch.equal(whole[start : start + n], a[start:] * 2)
    assert torch.equal(whole[:start], torch.full_like(whole[:start], 7.0))
    assert torch.equal(whole[start + n :], torch.full_like(whole[start + n :], 7.0))


def test_outputs_are_made_on_the_inputs_device() -> None:
    kernel = tl.compile(scale(100), target="cuda", out_idx=[-1])
    a = torch.randn(100, device="cuda")
    b = kernel(a)
    assert b.device == a.device
    assert torch.equal(b, a * 2)


def test_tensors_of_the_host_are_refused() -> None:
    kernel = tl.compile(scale(100), target="cuda")
    with pytest.raises(ArgumentDeviceError):
        kernel(torch.randn(100), torch.zeros(100, device="cuda"))


def test_a_refused_launch_says_why() -> None:
    rows = 70_000  # the y axis of a grid has at most 65535 blocks

    @T.prim_func
    def kernel(A: T.Tensor((rows,), T.float32)):
        with T.Kernel(1, rows, threads=32) as (_bx, by):
            A[by] = 1.0

    compiled = tl.compile(kernel, target="cuda")
    with pytest.raises(KernelLaunchError, match="INVALID_VALUE"):
        compiled(torch.zeros(rows, device="cuda"))
    torch.cuda.synchronize()


def test_a_kernel_from_the_cache_runs_and_is_exported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILE_CACHE_DIR", str(tmp_path))
    script = (
        "import sys, torch, tile_core as tl; sys.path.insert(0, sys.argv[1]); from test_device import scale\n"
        "kernel, a = tl.compile(scale(3000), target='cuda'), torch.randn(3000, device='cuda')\n"
        "b = torch.zeros_like(a); kernel(a, b); assert torch.equal(b, a * 2)\n"
        "kernel.export_sources(sys.argv[2])"
    )
    texts = []
    for name in ("cold.cu", "warm.cu"):
        command = [sys.executable, "-c", script, str(Path(__file__).parent), str(tmp_path / name)]
        subprocess.run(command, check=True)
        texts.append((tmp_path / name).read_text())
    assert texts[0] == texts[1]
    assert "__global__" in texts[1]


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")
def test_runs_on_the_device_of_its_tensors() -> None:
    kernel = tl.compile(scale(3000), target="cuda")
    for device in ("cuda:1", "cuda:0", "cuda:1"):
        a, b = torch.randn(3000, device=device), torch.zeros(3000, device=device)
        kernel(a, b)
        assert torch.equal(b, a * 2)
    with pytest.raises(ArgumentDeviceError):
        kernel(torch.randn(3000, device="cuda:0"), torch.zeros(3000, device="cuda:1"))


def test_lines_that_a_kernel_prints_appear(capfd: pytest.CaptureFixture[str]) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((2, 2), T.float32)):
        with T.Kernel(1, threads=64):
            tile = T.alloc_fragment((2, 2), T.float32)
            T.copy(A, tile)
            T.print(tile, "tile")

    tl.compile(kernel, target="cuda")(torch.tensor([[1.5, 2.0], [-3.0, 4.0]], device="cuda"))
    torch.cuda.synchronize()
    lines = capfd.readouterr().out.splitlines()
    assert lines == ["tile: tile[0, 0] = 1.5", "tile: tile[0, 1] = 2", "tile: tile[1, 0] = -3", "tile: tile[1, 1] = 4"]


ASSERTING = """
import torch
import tile_core as tl
import tile_core.language as T

@T.prim_func
def kernel(A: T.Tensor((64,), T.int32)):
    with T.Kernel(1, threads=64):
        t = T.get_thread_binding()
        T.device_assert(A[t] < 40, "too large")

tl.compile(kernel, target="cuda")(torch.arange(64, dtype=torch.int32, device="cuda"))
torch.cuda.synchronize()
"""


def test_a_failed_assertion_stops_the_kernel_and_says_what_failed(tmp_path: Path) -> None:
    """In a process of its own: what traps leaves a context that can do nothing more."""
    path = tmp_path / "asserting.py"
    path.write_text(ASSERTING, "utf-8")
    done = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "too large" in done.stdout + done.stderr
    assert "device-side assert" in done.stderr
