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


FAR_ROWS, FAR_COLUMNS = 2**19 + 5, 4096
"""A tensor with more than 2^31 elements, whose last rows no int32 numbers."""


def doubled(rows: int | None, *, through_shared: bool) -> Any:
    """B = A + A; without `rows` their number is known when the kernel is called."""
    extent = T.dynamic("rows") if rows is None else rows

    @T.prim_func
    def kernel(A: T.Tensor((extent, FAR_COLUMNS), T.float16), B: T.Tensor((extent, FAR_COLUMNS), T.float16)):
        with T.Kernel(T.ceildiv(extent, 64), FAR_COLUMNS // 256, threads=128) as (bx, by):
            if through_shared:
                tile = T.alloc_shared((64, 256), T.float16)
                T.copy(A[bx * 64, by * 256], tile)
                for i, j in T.Parallel(64, 256):
                    tile[i, j] = tile[i, j] + tile[i, j]
                T.copy(tile, B[bx * 64, by * 256])
            else:
                for i, j in T.Parallel(64, 256):
                    at = bx * 64 + i, by * 256 + j
                    B[at] = A[at] + A[at]

    return kernel


def far_product() -> Any:
    @T.prim_func
    def kernel(
        A: T.Tensor((FAR_ROWS, FAR_COLUMNS), T.float16),
        B: T.Tensor((FAR_COLUMNS, 64), T.float16),
        C: T.Tensor((FAR_ROWS, 64), T.float16),
    ):
        with T.Kernel(T.ceildiv(FAR_ROWS, 128), threads=256) as bx:
            a = T.alloc_shared((128, 64), T.float16)
            b = T.alloc_shared((64, 64), T.float16)
            c = T.alloc_fragment((128, 64), T.float32)
            T.clear(c)
            for k in T.Pipelined(FAR_COLUMNS // 64, num_stages=3):
                T.copy(A[bx * 128, k * 64], a)
                T.copy(B[k * 64, 0], b)
                T.gemm(a, b, c)
            T.copy(c, C[bx * 128, 0])

    return kernel


def test_places_that_int32_does_not_number() -> None:
    free, _all = torch.cuda.mem_get_info()
    if free < 12 << 30:
        pytest.skip("it needs 12 GB of memory on the GPU")
    a = torch.empty(FAR_ROWS, FAR_COLUMNS, dtype=torch.float16, device="cuda").normal_()
    b = torch.empty_like(a)
    for program in (
        doubled(FAR_ROWS, through_shared=False),
        doubled(FAR_ROWS, through_shared=True),
        doubled(None, through_shared=False),
    ):
        b.fill_(float("nan"))
        tl.compile(program, target="cuda")(a, b)
        for rows in (slice(0, 99), slice(-99, None)):
            assert torch.equal(b[rows], a[rows] * 2)
        assert not torch.isnan(b.sum(dtype=torch.float32))
    right = torch.randn(FAR_COLUMNS, 64, device="cuda").half()
    for ahead in (True, False):
        c = torch.full((FAR_ROWS, 64), float("nan"), dtype=torch.float16, device="cuda")
        tl.compile(far_product(), target="cuda", pass_configs={"tile.specialize_warps": ahead})(a, right, c)
        for rows in (slice(0, 999), slice(-999, None)):
            torch.testing.assert_close(c[rows].float(), a[rows].float() @ right.float(), rtol=1e-3, atol=1e-2)
        assert not torch.isnan(c).any()


@pytest.mark.parametrize(("column", "row", "result"), [(8, 0, 8), (4, 0, 0), (1, 0, 3), (5, -5, 5)])
def test_boxes_that_the_copy_engine_cannot_begin_at(column: int, row: int, result: int) -> None:
    """Places that end a kernel with an illegal instruction where the engine is asked for them."""

    @T.prim_func
    def kernel(
        A: T.Tensor((128, 256), T.float16), B: T.Tensor((128, 64), T.float16), C: T.Tensor((128, 136), T.float32)
    ):
        with T.Kernel(2, threads=128) as by:
            a = T.alloc_shared((64, 32), T.float16)
            b = T.alloc_shared((32, 64), T.float16)
            c = T.alloc_fragment((64, 64), T.float32)
            T.clear(c)
            for k in T.Pipelined(4, num_stages=3):
                T.copy(A[by * 64, k * 32 + column], a)
                T.copy(B[k * 32, 0], b)
                T.gemm(a, b, c)
            T.copy(c, C[by * 64 + row, result])

    a, b = torch.randn(128, 256, device="cuda").half(), torch.randn(128, 64, device="cuda").half()
    c = torch.full((128, 136), float("nan"), device="cuda")
    tl.compile(kernel, target="cuda")(a, b, c)
    expected = torch.full_like(c, float("nan"))
    product = a[:, column : column + 128].float() @ b.float()
    expected[: 128 + row, result : result + 64] = product[-row:]
    torch.testing.assert_close(c, expected, rtol=1e-3, atol=1e-2, equal_nan=True)


def test_a_launch_of_no_blocks_and_tensors_without_elements() -> None:
    rows = T.dynamic("rows")

    @T.prim_func
    def kernel(A: T.Tensor((rows, 64), T.float32), B: T.Tensor((rows, 64), T.float32)):
        with T.Kernel(rows, threads=64) as bx:
            for i in T.Parallel(64):
                B[bx, i] = A[bx, i] + 1

    compiled = tl.compile(kernel, target="cuda")
    for extent in (0, 1, 7, 0):
        a, b = torch.randn(extent, 64, device="cuda"), torch.zeros(extent, 64, device="cuda")
        compiled(a, b)
        torch.cuda.synchronize()
        assert torch.equal(b, a + 1)


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
    rows = T.dynamic("rows")

    @T.prim_func
    def kernel(A: T.Tensor((rows,), T.float32)):
        with T.Kernel(1, rows, threads=32) as (_bx, by):
            A[by] = 1.0

    compiled = tl.compile(kernel, target="cuda")
    with pytest.raises(KernelLaunchError, match="INVALID_VALUE") as raised:
        compiled(torch.zeros(70_000, device="cuda"))  # the y axis of a grid has at most 65535 blocks
    for words in ("kernel_kernel with grid (1, 70000, 1)", "block (32, 1, 1)", "A float32 (70000)"):
        assert words in str(raised.value)
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
