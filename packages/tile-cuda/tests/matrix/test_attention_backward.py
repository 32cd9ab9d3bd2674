"""`examples/attention_backward.py`: five products a step, two of them with operands that never left the registers."""

from __future__ import annotations

import runpy
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import tile_core as tl
from tile_cuda.target import device_architecture

EXAMPLES = Path(__file__).resolve().parents[4] / "examples"
FORWARD, BACKWARD = (
    SimpleNamespace(**runpy.run_path(str(EXAMPLES / name))) for name in ("attention.py", "attention_backward.py")
)
TARGETS: list[Any] = ["interpret", "cpu", {"kind": "cuda", "arch": "sm_80"}, {"kind": "cuda", "arch": "sm_90"}]
# batch, heads, sequence, dim
SHAPES = [(1, 2, 130, 64), (2, 1, 64, 64), (1, 1, 1, 64)]


def check(target: Any, batch: int, heads: int, sequence: int, dim: int, *, causal: bool) -> None:
    """Forward and backward: the second takes what the first leaves."""
    native = target == "native"
    dtype = torch.float16 if native or isinstance(target, dict) else torch.float32
    torch.manual_seed(6)
    shape, name = (batch, sequence, heads, dim), str(dtype).removeprefix("torch.")
    q, k, v, d_out = (torch.randn(shape).to(dtype).to("cuda" if native else "cpu") for _ in range(4))
    out, *found = (torch.full_like(q, float("nan")) for _ in range(4))
    lse = torch.full((batch, heads, sequence), float("nan"), device=q.device)
    forward = FORWARD.attention(batch, heads, sequence, dim, name, causal=causal, block=(64, 64), threads=128)
    run(target, forward, q, k, v, out, lse, ahead=True)
    expected_out, expected_lse, expected = BACKWARD.reference(q, k, v, d_out, causal=causal)
    torch.testing.assert_close(out.float(), expected_out, rtol=2e-3, atol=2e-3)
    torch.testing.assert_close(lse, expected_lse, rtol=1e-3, atol=2e-3)
    run(
        target,
        BACKWARD.attention_backward(batch, heads, sequence, dim, name, causal=causal),
        q,
        k,
        v,
        out,
        d_out,
        lse,
        *found,
        ahead=sequence % 4 == 0,  # else no map describes Lse: its rows are no multiple of 16 bytes
    )
    for one, right in zip(found, expected, strict=True):
        torch.testing.assert_close(one.float(), right, rtol=4e-3, atol=4e-3)


def run(target: Any, program: Any, *arguments: torch.Tensor, ahead: bool) -> None:
    """Compile and call: emulated with checks for architectures, where sm_90 copies `ahead` by warps of their own."""
    if not isinstance(target, dict):
        tl.compile(program, target="cuda" if target == "native" else target)(*arguments)
        return
    kernel = tl.compile(program, target=target, execution="emulate", pass_configs={"tile.emulate_check": True})
    kernel(*arguments)
    assert kernel.report()["fragments_in_shared"] == []
    assert kernel.report()["specialized_warps"] == (ahead and target["arch"] == "sm_90")


@pytest.mark.parametrize("target", TARGETS, ids=str)
@pytest.mark.parametrize(
    ("shape", "causal"), [(SHAPES[0], False), (SHAPES[0], True), (SHAPES[1], True), (SHAPES[2], True)]
)
def test_gradients(target: Any, shape: tuple[int, int, int, int], causal: bool) -> None:
    check(target, *shape, causal=causal)


@pytest.mark.device
@pytest.mark.parametrize("shape", [*SHAPES, (1, 2, 500, 128)], ids=str)
@pytest.mark.parametrize("causal", [False, True])
def test_on_the_device(shape: tuple[int, int, int, int], causal: bool) -> None:
    found, reason = device_architecture()
    if found is None:
        pytest.skip(reason)
    check("native", *shape, causal=causal)
