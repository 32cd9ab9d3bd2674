"""The attention example on the CPU: heads inside of the sequence and shared, masks, ragged ends, odd addresses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import tile_core as tl
from tile_core.testing.scripts import load_script

example: Any = load_script(Path(__file__).resolve().parents[3] / "examples" / "attention.py")


def odd(*shape: int, dtype: torch.dtype) -> torch.Tensor:
    """Random numbers of which no row begins at an aligned address."""
    flat = torch.randn(torch.Size(shape).numel() + 1).to(dtype)
    return flat[1:].view(shape)


@pytest.mark.parametrize(
    ("dtype", "sequence", "dim", "options"),
    [
        ("float32", 192, 64, {"causal": False}),
        ("float32", 200, 64, {"causal": True, "groups": 2}),
        ("float32", 131, 24, {"causal": True, "window": 50}),
        ("float32", 77, 40, {"causal": False, "groups": 4}),
        ("bfloat16", 256, 64, {"causal": True, "groups": 2}),
        ("bfloat16", 100, 48, {"causal": True, "window": 33}),
        ("bfloat16", 129, 64, {"causal": False}),
    ],
)
def test_heads_inside_of_the_sequence(dtype: str, sequence: int, dim: int, options: dict[str, Any]) -> None:
    heads, groups, kind = 4, options.get("groups", 1), getattr(torch, dtype)
    program = example.attention(2, heads, sequence, dim, dtype, block=(64, 64), **options)
    kernel = tl.compile(program, target="cpu")
    shared = {name[0] for name in kernel.artifact.report.get("shared_operands", ())}
    assert shared == (set() if "window" in options else {"K", "V"})
    torch.manual_seed(sequence)
    q = odd(2, sequence, heads, dim, dtype=kind)
    k, v = (odd(2, sequence, heads // groups, dim, dtype=kind) for _ in range(2))
    guarded = torch.full((q.numel() + 2,), 77.0).to(kind)
    out = guarded[1:-1].view(q.shape)
    logs = torch.full((2, heads, sequence), 99.0)
    kernel(q, k, v, out, logs)
    wide = (each.double() for each in (q, k.repeat_interleave(groups, 2), v.repeat_interleave(groups, 2)))
    mask = {key: options.get(key) for key in ("causal", "window")}
    expected = example.reference(*wide, **mask)
    tolerance = 2e-2 if dtype == "bfloat16" else 2e-5
    torch.testing.assert_close(out.double(), expected.double(), rtol=tolerance, atol=tolerance)
    assert guarded[0] == guarded[-1] == 77
    assert bool(torch.isfinite(logs).all()) and float(logs.max()) < 99
