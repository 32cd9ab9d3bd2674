"""Weights of four bits: unpacked in registers two at a time where they are the halves of a byte, right in any case."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
import torch

import tile_core as tl
import tile_core.language as T
from tile_cuda.target import device_architecture

sys.path.insert(0, str(Path(__file__).resolve().parents[4] / "examples"))

from dequant_gemm import dequant_gemm, unpacked

CASES = [
    ("sm_80", (16, 64, 512), {}),
    ("sm_90", (16, 64, 512), {}),
    ("sm_90", (13, 70, 384), {"block": (16, 32, 128), "split": 3}),
    ("sm_80", (1, 33, 256), {"block": (16, 32, 64), "group": 64}),
    ("sm_90", (33, 64, 256), {"block": (32, 32, 128), "group": 32, "dtype": "bfloat16"}),
    ("sm_90", (13, 70, 256), {"weights": "e2m1", "block": (16, 32, 128)}),
    ("sm_90", (16, 64, 256), {"weights": "e2m1", "dtype": "bfloat16", "block": (16, 64, 128)}),
    ("sm_75", (16, 64, 256), {"threads": 64}),
    ("sm_120", (16, 64, 256), {"block": (16, 64, 32), "group": 32, "dtype": "bfloat16"}),
]


def check(arch: str, size: tuple[int, int, int], options: dict[str, Any], execution: str, device: str) -> Any:
    (m, n, k), group, dtype = size, options.get("group", 128), getattr(torch, options.get("dtype", "float16"))
    torch.manual_seed(1)
    a, b = torch.randn(m, k).to(dtype), torch.randint(0, 256, (n, k // 2), dtype=torch.uint8)
    scale = (torch.rand(k // group, n) + 0.5).to(dtype)
    is_sum = options.get("split", 1) > 1
    c = torch.zeros(m, n) if is_sum else torch.full((m, n), float("nan")).to(dtype)
    configs = {"tile.emulate_check": True} if execution == "emulate" else {}
    target = {"kind": "cuda", "arch": arch}
    kernel = tl.compile(dequant_gemm(m, n, k, **options), target=target, execution=execution, pass_configs=configs)
    there = [x.to(device) for x in (a, b, scale, c)]
    kernel(*there)
    expected = a.float() @ unpacked(b, scale, group, options.get("weights", "uint4")).T
    atol = {torch.float16: 2e-3, torch.bfloat16: 2e-2}[dtype] * float(expected.abs().max())
    torch.testing.assert_close(there[3].cpu().float(), expected, rtol=0, atol=atol)
    return kernel


@pytest.mark.emulate
@pytest.mark.parametrize(("arch", "size", "options"), CASES)
def test_emulated(arch: str, size: tuple[int, int, int], options: dict[str, Any]) -> None:
    kernel = check(arch, size, options, "emulate", "cpu")
    if options.get("weights", "uint4") == "uint4":
        assert "tile_nibbles" in kernel.get_kernel_source()
    assert kernel.report()["products"][0].split(": ")[1].startswith("mma ")
    assert kernel.report()["fragments_in_shared"] == []


@pytest.mark.device
@pytest.mark.parametrize(("_arch", "size", "options"), CASES[:7])
def test_on_the_device(_arch: str, size: tuple[int, int, int], options: dict[str, Any]) -> None:
    found, reason = device_architecture()
    if found is None:
        pytest.skip(reason)
    check(found, size, options, "native", "cuda")


UNPACKINGS = {
    "halves": (2, "uint8", True, lambda word, j: (word >> (j % 2 * 4)) & 15),
    "halves of signed bytes": (2, "int8", True, lambda word, j: (word >> (j % 2 * 4)) & 15),
    "eight of a word": (8, "int32", True, lambda word, j: (word >> (j % 8 * 4)) & 15),
    "the high half first": (2, "uint8", False, lambda word, j: (word >> ((1 - j % 2) * 4)) & 15),
    "three bits": (2, "uint8", False, lambda word, j: (word >> (j % 2 * 4)) & 7),
    "two bits apart": (4, "uint8", False, lambda word, j: (word >> (j % 4 * 2)) & 15),
}


@pytest.mark.emulate
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("kind", UNPACKINGS)
def test_every_value_of_a_byte(kind: str, dtype: str) -> None:
    """Only halves of a byte, the low one first, are unpacked as pairs; whatever is unpacked, it is right."""
    share, word, packs, unpack = UNPACKINGS[kind]
    count = 256 * share

    @T.prim_func
    def program(A: T.Tensor((256,), word), B: T.Tensor((count,), dtype), C: T.Tensor((count,), dtype)):
        with T.Kernel(1, threads=32):
            for j in T.Parallel(count):
                B[j] = T.cast(unpack(A[j // share], j), dtype)
                C[j] = T.cast(unpack(A[j // share], j), dtype) - 8

    kernel = tl.compile(program, target={"kind": "cuda", "arch": "sm_80"}, execution="emulate")
    stored = torch.arange(256)
    a = (stored * 0x01234567 if word == "int32" else stored).to(getattr(torch, word))
    b, c = (torch.full((count,), float("nan")).to(getattr(torch, dtype)) for _ in range(2))
    kernel(a, b, c)
    expected = torch.tensor([unpack(int(a[j // share]), j) for j in range(count)]).float()
    assert torch.equal(b.float(), expected)
    assert torch.equal(c.float(), expected - 8)
    assert ("tile_nibbles" in kernel.get_kernel_source()) == packs


@pytest.mark.compile
@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_90"])
def test_compiles_for(arch: str) -> None:
    pytest.importorskip("nvidia.cu13", reason="NVRTC is not installed")
    source = tl.compile(dequant_gemm(16, 256, 512), target={"kind": "cuda", "arch": arch}).get_kernel_source()
    assert "tile_nibbles_half2" in source
    assert "mma.sync.aligned" in source
