"""`examples/attention_decode.py`: every target gives what torch gives; on sm_90 copies run ahead, from pages too."""

from __future__ import annotations

import runpy
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import tile_core as tl
from tile_cuda.target import device_architecture

EXAMPLE = SimpleNamespace(**runpy.run_path(str(Path(__file__).resolve().parents[4] / "examples/attention_decode.py")))
TARGETS: list[Any] = ["interpret", "cpu", {"kind": "cuda", "arch": "sm_80"}, {"kind": "cuda", "arch": "sm_90"}]
HEADS, KV_HEADS, DIM, PAGE = 8, 2, 64, 64
WHOLE = [(300, 2), (130, 4), (256, 1), (1, 2)]
LENGTHS = [(300, 70, 64), (1, 129, 640)]


def check_whole(target: Any, context: int, splits: int) -> None:
    native = target == "native"
    dtype = torch.float16 if native or isinstance(target, dict) else torch.float32
    q, k, v, out = tensors(2, context, dtype, "cuda" if native else "cpu")
    program = EXAMPLE.decode(2, HEADS, KV_HEADS, context, DIM, name(dtype), splits=splits, block=64)
    run(target, program, q, k, v, out)
    torch.testing.assert_close(out.float(), EXAMPLE.reference(q, k, v), rtol=2e-3, atol=2e-3)


def check_paged(target: Any, lengths: tuple[int, ...], splits: int) -> None:
    native = target == "native"
    device, dtype = "cuda" if native else "cpu", torch.float16 if native or isinstance(target, dict) else torch.float32
    batch, longest = len(lengths), -(-max(lengths) // PAGE)
    q, k, v, out = tensors(batch, max(lengths), dtype, device)
    for b, length in enumerate(lengths):
        k[b, length:] = v[b, length:] = float("nan")
    table = torch.randperm(batch * longest, device=device).to(torch.int32).reshape(batch, longest)
    program = EXAMPLE.decode_paged(
        batch, HEADS, KV_HEADS, batch * longest, PAGE, longest, DIM, name(dtype), splits=splits
    )
    pages = [EXAMPLE.paged(x, table, PAGE) for x in (k, v)]
    run(target, program, q, *pages, table, torch.tensor(lengths, dtype=torch.int32, device=device), out)
    for b, length in enumerate(lengths):
        expected = EXAMPLE.reference(q[b : b + 1], k[b : b + 1, :length], v[b : b + 1, :length])
        torch.testing.assert_close(out[b : b + 1].float(), expected, rtol=2e-3, atol=2e-3)


def tensors(batch: int, context: int, dtype: torch.dtype, device: str) -> list[torch.Tensor]:
    torch.manual_seed(2)
    q = torch.randn(batch, HEADS, DIM).to(dtype)
    k, v = (torch.randn(batch, context, KV_HEADS, DIM).to(dtype) for _ in range(2))
    return [x.to(device) for x in (q, k, v, torch.full_like(q, float("nan")))]


def name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def run(target: Any, program: Any, *arguments: torch.Tensor) -> None:
    """Compile and call: emulated with checks for architectures."""
    if not isinstance(target, dict):
        tl.compile(program, target="cuda" if target == "native" else target)(*arguments)
        return
    kernel = tl.compile(program, target=target, execution="emulate", pass_configs={"tile.emulate_check": True})
    kernel(*arguments)
    assert kernel.report()["fragments_in_shared"] == []
    assert kernel.report()["specialized_warps"] == (target["arch"] == "sm_90")


@pytest.mark.parametrize("target", TARGETS, ids=str)
@pytest.mark.parametrize(("context", "splits"), WHOLE)
def test_one_tensor(target: Any, context: int, splits: int) -> None:
    check_whole(target, context, splits)


@pytest.mark.parametrize("target", TARGETS, ids=str)
@pytest.mark.parametrize("lengths", LENGTHS, ids=str)
def test_pages(target: Any, lengths: tuple[int, ...]) -> None:
    check_paged(target, lengths, splits=3)


@pytest.mark.device
@pytest.mark.parametrize("shape", [*WHOLE, *LENGTHS], ids=str)
def test_on_the_device(shape: tuple[int, ...]) -> None:
    """A context and its splits, or the lengths of three sequences that lie in pages."""
    found, reason = device_architecture()
    if found is None:
        pytest.skip(reason)
    if shape in LENGTHS:
        check_paged("native", shape, splits=3)
    else:
        check_whole("native", *shape)
