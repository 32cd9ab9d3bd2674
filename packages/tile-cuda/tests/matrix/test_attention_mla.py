"""`examples/attention_mla.py`: two products into one tile of scores, weights through shared memory."""

from __future__ import annotations

import runpy
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import tile_core as tl
from tile_cuda.target import device_architecture

EXAMPLE = SimpleNamespace(**runpy.run_path(str(Path(__file__).resolve().parents[4] / "examples/attention_mla.py")))
TARGETS: list[Any] = ["interpret", "cpu", {"kind": "cuda", "arch": "sm_80"}, {"kind": "cuda", "arch": "sm_90"}]
# heads, context, dim, splits
SHAPES = [(64, 200, 128, 1), (70, 130, 128, 3)]


def check(target: Any, heads: int, context: int, dim: int, splits: int) -> None:
    native = target == "native"
    dtype = torch.float16 if native or isinstance(target, dict) else torch.float32
    torch.manual_seed(5)
    shapes = [(2, heads, dim), (2, heads, 64), (2, context, dim), (2, context, 64)]
    tensors = [torch.randn(shape).to(dtype).to("cuda" if native else "cpu") for shape in shapes]
    out = torch.full_like(tensors[0], float("nan"))
    program = EXAMPLE.mla_decode(2, heads, context, dim, 64, str(dtype).removeprefix("torch."), splits=splits)
    if isinstance(target, dict):
        kernel = tl.compile(program, target=target, execution="emulate", pass_configs={"tile.emulate_check": True})
        assert kernel.report()["fragments_in_shared"] == []
        assert kernel.report()["specialized_warps"] == (target["arch"] == "sm_90")
    else:
        kernel = tl.compile(program, target="cuda" if native else target)
    kernel(*tensors, out)
    torch.testing.assert_close(out.float(), EXAMPLE.reference(*tensors), rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("target", TARGETS, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_decode(target: Any, shape: tuple[int, int, int, int]) -> None:
    check(target, *shape)


@pytest.mark.device
@pytest.mark.parametrize("shape", [*SHAPES, (128, 500, 512, 2)], ids=str)
def test_on_the_device(shape: tuple[int, int, int, int]) -> None:
    found, reason = device_architecture()
    if found is None:
        pytest.skip(reason)
    check("native", *shape)
