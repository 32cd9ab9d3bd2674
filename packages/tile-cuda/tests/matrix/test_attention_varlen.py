"""`examples/attention_varlen.py`: sequences do not see each other, on any target; what lies behind one may be NaN."""

from __future__ import annotations

import runpy
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import tile_core as tl
from tile_cuda.target import device_architecture

EXAMPLE = SimpleNamespace(**runpy.run_path(str(Path(__file__).resolve().parents[4] / "examples/attention_varlen.py")))
TARGETS: list[Any] = ["interpret", "cpu", {"kind": "cuda", "arch": "sm_80"}, {"kind": "cuda", "arch": "sm_90"}]
# Starts of queries and of keys. The third sequence has no queries, the last of the second row no keys.
STARTS = [
    ([0, 130, 131, 131, 160], [0, 130, 131, 200, 233]),
    ([0, 70, 71, 100], [0, 40, 168, 168]),
]
HEADS, GROUPS, DIM = 4, 2, 64


def check(target: Any, starts: tuple[list[int], list[int]], *, causal: bool) -> None:
    native = target == "native"
    dtype = torch.float16 if native or isinstance(target, dict) else torch.float32
    device = "cuda" if native else "cpu"
    torch.manual_seed(4)
    q = torch.randn(starts[0][-1], HEADS, DIM).to(dtype)
    k, v = (torch.randn(starts[1][-1] + 40, HEADS // GROUPS, DIM).to(dtype) for _ in range(2))
    for x in (k, v):
        x[starts[1][-1] :] = float("nan")
        for b, (first, end) in enumerate(pairwise(starts[0])):
            if first == end:  # nobody asks for these keys
                x[starts[1][b] : starts[1][b + 1]] = float("inf")
    q, k, v, out = (x.to(device) for x in (q, k, v, torch.full_like(q, float("nan"))))
    sizes = (len(starts[0]) - 1, HEADS, 130, DIM, str(dtype).removeprefix("torch."))
    program = EXAMPLE.attention_varlen(*sizes, causal=causal, groups=GROUPS, block=(64, 64), threads=128)
    tables = [torch.tensor(x, dtype=torch.int32, device=device) for x in starts]
    if isinstance(target, dict):
        kernel = tl.compile(program, target=target, execution="emulate", pass_configs={"tile.emulate_check": True})
        assert kernel.report()["fragments_in_shared"] == []
        assert kernel.report()["specialized_warps"] == (target["arch"] == "sm_90")
    else:
        kernel = tl.compile(program, target="cuda" if native else target)
    kernel(q, k, v, *tables, out)
    expected = EXAMPLE.reference(q, k, v, *starts, causal=causal)
    torch.testing.assert_close(out.float(), expected, rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("target", TARGETS, ids=str)
@pytest.mark.parametrize(("starts", "causal"), [(STARTS[0], False), (STARTS[0], True), (STARTS[1], True)])
def test_packed(target: Any, starts: tuple[list[int], list[int]], causal: bool) -> None:
    check(target, starts, causal=causal)


@pytest.mark.device
@pytest.mark.parametrize("starts", STARTS)
@pytest.mark.parametrize("causal", [False, True])
def test_on_the_device(starts: tuple[list[int], list[int]], causal: bool) -> None:
    found, reason = device_architecture()
    if found is None:
        pytest.skip(reason)
    check("native", starts, causal=causal)
