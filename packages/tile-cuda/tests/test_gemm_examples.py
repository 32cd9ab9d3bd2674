"""The products of `examples/`: interpreted, on the CPU, emulated with checks, and on a GPU where there is one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import tile_core as tl
from tile_core.plugins.manager import backends
from tile_core.testing.scripts import load_script
from tile_cuda.target import detect

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
SMALL = (64, 64, 32)
Run = Callable[..., Any]


def example(name: str) -> Any:
    """A module of `examples/`."""
    return load_script(EXAMPLES / f"{name}.py")


SCHEDULES, EPILOGUES = example("gemm_schedules"), example("gemm_epilogues")
WAYS = [
    "interpret",
    "cpu",
    pytest.param("emulate", marks=pytest.mark.emulate),
    pytest.param("cuda", marks=pytest.mark.device),
]


@pytest.fixture(params=WAYS)
def run(request: pytest.FixtureRequest) -> Run:
    """Run a program on tensors of the host, which hold its results afterwards; the kernel."""
    way = request.param
    if way == "cpu" and "cpu" not in backends():
        pytest.skip("the CPU backend is not installed")
    if way == "cuda" and not detect().available:
        pytest.skip("it needs a GPU")

    def call(program: Any, *tensors: torch.Tensor) -> Any:
        if way == "emulate":
            target = {"kind": "cuda", "arch": "sm_90"}
            kernel = tl.compile(program, target=target, execution="emulate", pass_configs={"tile.emulate_check": True})
        else:
            kernel = tl.compile(program, target=way)
        given = [tensor.cuda() for tensor in tensors] if way == "cuda" else list(tensors)
        kernel(*given)
        for tensor, other in zip(tensors, given, strict=True):
            tensor.copy_(other)
        return kernel

    return call


def operands(m: int, n: int, k: int) -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    return torch.randn(m, k).half(), torch.randn(k, n).half()


def poisoned(*shape: int, dtype: torch.dtype = torch.float16) -> torch.Tensor:
    return torch.full(shape, 0xFF, dtype=torch.uint8).repeat_interleave(dtype.itemsize, -1).view(dtype)


@pytest.mark.parametrize("splits", [1, 3])
def test_split_k(run: Run, splits: int) -> None:
    a, b = operands(100, 136, 200)
    c = torch.zeros(100, 136)
    run(SCHEDULES.split_k(100, 136, 200, splits, block=SMALL), a, b, c)
    torch.testing.assert_close(c.double(), a.double() @ b.double(), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("workers", [1, 3, 5, 40])
def test_stream_k(run: Run, workers: int) -> None:
    """Fewer workers than tiles, shares that begin within tiles, and workers without a share."""
    a, b = operands(100, 136, 136)
    c = torch.zeros(100, 136)
    run(SCHEDULES.stream_k(100, 136, 136, workers, block=SMALL), a, b, c)
    torch.testing.assert_close(c.double(), a.double() @ b.double(), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("sizes", [(70, 0, 1, 65), (0, 3), (64,)], ids=str)
def test_groups(run: Run, sizes: tuple[int, ...]) -> None:
    rows, n, k = sum(sizes), 72, 136
    a, _b = operands(rows, n, k)
    b, c = torch.randn(len(sizes), k, n).half(), poisoned(rows, n)
    tiles = SCHEDULES.tiles_of_groups(sizes, SMALL[0])
    run(SCHEDULES.grouped(rows, len(sizes), n, k, len(tiles), block=SMALL), a, b, tiles, c)
    parts = [part.double() @ each.double() for part, each in zip(a.split(sizes), b, strict=True)]
    torch.testing.assert_close(c.double(), torch.cat(parts), rtol=2e-3, atol=2e-2)


def test_bias_silu_residual(run: Run) -> None:
    a, b = operands(100, 136, 136)
    bias, residual, c = torch.randn(136).half(), torch.randn(100, 136).half(), poisoned(100, 136)
    run(EPILOGUES.gemm_bias_silu_residual(100, 136, 136, block=SMALL), a, b, bias, residual, c)
    expected = torch.nn.functional.silu(a.double() @ b.double() + bias.double()) + residual.double()
    torch.testing.assert_close(c.double(), expected, rtol=2e-3, atol=2e-2)


def test_quantized(run: Run) -> None:
    a, b = operands(100, 136, 136)
    a[3] = 0
    c, scale = poisoned(100, 136, dtype=torch.float8_e4m3fn), torch.full((100, 3), float("nan"))
    run(EPILOGUES.gemm_quantized(100, 136, 136, block=SMALL), a, b, c, scale)
    expected = a.double() @ b.double()
    largest = torch.stack([part.abs().amax(1) for part in expected.split(64, 1)], 1).clamp(min=1e-4) / 448
    torch.testing.assert_close(scale.double(), largest, rtol=1e-3, atol=1e-9)
    found = c.double() * scale.double().repeat_interleave(64, 1)[:, :136]
    torch.testing.assert_close(found, expected, rtol=0.07, atol=1e-2)


@pytest.mark.parametrize("k", [256, 200])
def test_scaled(run: Run, k: int) -> None:
    generator = torch.Generator().manual_seed(0)
    a, a_scale, left = EPILOGUES.scaled_operands(100, k, 1, generator)
    b, b_scale, right = EPILOGUES.scaled_operands(136, k, 128, generator)
    c = poisoned(100, 136, dtype=torch.float32)
    run(EPILOGUES.gemm_scaled(100, 136, k, "float32"), a, b, a_scale, b_scale, c)
    # Tensor cores sum products of float8 with about 13 bits.
    torch.testing.assert_close(c.double(), left.double() @ right.double().T, rtol=2e-3, atol=3e-2)
