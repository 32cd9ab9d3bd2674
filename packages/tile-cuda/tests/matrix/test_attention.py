"""The attention of `examples/attention.py` by matrix instructions: fragments stay in registers, copies run ahead."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

import tile_core as tl
from tile_core.testing.scripts import load_script
from tile_cuda.target import device_architecture

EXAMPLE = Path(__file__).resolve().parents[4] / "examples" / "attention.py"
# batch, heads, sequence, dim, options
SHAPES: list[tuple[int, int, int, int, dict[str, Any]]] = [
    (1, 2, 256, 64, {}),
    (1, 2, 200, 64, {"causal": True}),
    (2, 4, 70, 128, {"groups": 2, "block": (64, 64), "threads": 128}),
    (1, 1, 300, 64, {"causal": True, "block": (128, 64), "dtype": "bfloat16"}),
    (1, 1, 1, 64, {"block": (64, 64), "threads": 128}),
    (1, 1, 300, 64, {"causal": True, "window": 90, "block": (128, 64)}),
    (1, 2, 200, 64, {"causal": True, "window": 1, "block": (64, 64), "threads": 128}),
]


@pytest.fixture(scope="module")
def example() -> ModuleType:
    return load_script(EXAMPLE)


def check(example: ModuleType, shape: tuple[int, int, int, int, dict[str, Any]], arch: str, device: str) -> None:
    batch, heads, sequence, dim, options = shape
    dtype = getattr(torch, options.get("dtype", "float16"))
    groups = options.get("groups", 1)
    torch.manual_seed(1)
    q = torch.randn(batch, sequence, heads, dim).to(dtype)
    k, v = (torch.randn(batch, sequence, heads // groups, dim).to(dtype) for _ in range(2))
    out = torch.full_like(q, float("nan"), device=device)
    execution = "emulate" if device == "cpu" else "native"
    configs = {"tile.emulate_check": True} if device == "cpu" else {}
    kernel = tl.compile(
        example.attention(batch, heads, sequence, dim, **options),
        target={"kind": "cuda", "arch": arch},
        execution=execution,
        pass_configs=configs,
    )
    lse = torch.full((batch, heads, sequence), float("nan"), device=device)
    kernel(q.to(device), k.to(device), v.to(device), out, lse)
    assert kernel.report()["fragments_in_shared"] == []
    expected = example.reference(q, k, v, causal=options.get("causal", False), window=options.get("window"))
    tolerance = 1e-2 if dtype == torch.bfloat16 else 2e-3
    torch.testing.assert_close(out.cpu().float(), expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_emulated_with_warpgroups(example: ModuleType, shape: tuple[int, int, int, int, dict[str, Any]]) -> None:
    check(example, shape, "sm_90", "cpu")


@pytest.mark.parametrize("shape", SHAPES[1:3], ids=str)
def test_emulated_with_warps(example: ModuleType, shape: tuple[int, int, int, int, dict[str, Any]]) -> None:
    check(example, shape, "sm_80", "cpu")


@pytest.mark.device
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_on_the_device(example: ModuleType, shape: tuple[int, int, int, int, dict[str, Any]]) -> None:
    found, reason = device_architecture()
    if found is None:
        pytest.skip(reason)
    check(example, shape, found, "cuda")
