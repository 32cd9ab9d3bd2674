"""A kernel as an operator of torch: `torch.compile` takes it whole."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import tile_core as tl
import tile_core.language as T

ON_A_GPU = torch.cuda.is_available()


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILE_CACHE_DIR", str(tmp_path))


@tl.jit(target="cuda" if ON_A_GPU else {"kind": "cuda", "arch": "sm_90"}, execution=None if ON_A_GPU else "emulate")
def doubled(A):  # type: ignore[no-untyped-def]
    n = T.const("n")
    A: T.Tensor((n,), "float32")
    B = T.empty((n,), "float32")
    with T.Kernel(T.ceildiv(n, 256), threads=64) as bx:
        for i in T.Parallel(256):
            B[bx * 256 + i] = A[bx * 256 + i] * 2
    return B


@pytest.mark.emulate
@pytest.mark.device
def test_torch_compile_takes_a_custom_op_without_a_break() -> None:
    @torch.library.custom_op("tile_tests::doubled", mutates_args=())
    def op(a: torch.Tensor) -> torch.Tensor:
        return doubled(a)

    @op.register_fake
    def _fake(a: torch.Tensor) -> torch.Tensor:
        return torch.empty_like(a)

    whole = torch.compile(lambda a: op(a + 1) - 1, fullgraph=True, backend="aot_eager")
    for n in (1000, 7):
        a = torch.randn(n, device="cuda" if ON_A_GPU else "cpu")
        assert torch.equal(whole(a), (a + 1) * 2 - 1)
