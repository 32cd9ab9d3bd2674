"""`T.sync_grid`: what a block writes before it, every block sees after it."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import tile_core as tl
import tile_core.language as T
from tile_core.errors import TileError

TARGET = {"kind": "cuda", "arch": "sm_90"}


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILE_CACHE_DIR", str(tmp_path))


def turned(blocks: int, wait: bool = True) -> Any:
    """Each block writes its part of W, and then reads the part of the block on the other end."""
    n = blocks * 64

    @T.prim_func
    def kernel(A: T.Tensor((n,), "float32"), W: T.Tensor((n,), "float32"), B: T.Tensor((n,), "float32")):
        with T.Kernel(blocks, threads=64) as bx:
            for i in T.Parallel(64):
                W[bx * 64 + i] = A[bx * 64 + i] * 2
            if wait:
                T.sync_grid()
            for i in T.Parallel(64):
                B[bx * 64 + i] = W[(blocks - 1 - bx) * 64 + i]

    return kernel


def check(blocks: int, device: str, **options: Any) -> None:
    kernel = tl.compile(turned(blocks), target=TARGET if device == "cpu" else "cuda", **options)
    for _ in range(3):
        a = torch.randn(blocks * 64, device=device)
        w, b = torch.full_like(a, float("nan")), torch.full_like(a, float("nan"))
        kernel(a, w, b)
        assert torch.equal(b, a.view(blocks, 64).flip(0).flatten() * 2)


@pytest.mark.emulate
@pytest.mark.parametrize("blocks", [1, 7, 16])
def test_blocks_see_what_others_wrote(blocks: int) -> None:
    check(blocks, "cpu", execution="emulate", pass_configs={"tile.emulate_check": True})


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
def test_blocks_see_what_others_wrote_on_the_device() -> None:
    check(132, "cuda")


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
def test_more_blocks_than_the_device_holds_are_refused() -> None:
    kernel = tl.compile(turned(1 << 16), target="cuda")
    tensors = [torch.zeros(64 << 16, device="cuda") for _ in range(3)]
    with pytest.raises(TileError, match="COOPERATIVE_LAUNCH_TOO_LARGE"):
        kernel(*tensors)


def test_the_launch_is_cooperative(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("nvidia.cu13", reason="NVRTC is not installed")
    kernels = tl.compile(turned(4), target=TARGET).artifact.report["kernels"]
    assert [kernel["attributes"] for kernel in kernels] == [{"cooperative": True}] * len(kernels)
    plain = tl.compile(turned(4, wait=False), target=TARGET).artifact.report["kernels"]
    assert all(kernel["attributes"] == {} for kernel in plain)


@pytest.mark.parametrize("target", ["interpret", "cpu"])
def test_targets_whose_blocks_run_in_turn_refuse(target: str) -> None:
    a = torch.zeros(128)
    with pytest.raises(TileError, match="grid|sync_grid"):
        tl.compile(turned(2), target=target)(a, a.clone(), a.clone())
