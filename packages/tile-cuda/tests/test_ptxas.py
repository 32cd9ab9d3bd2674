"""What ptxas says of kernels is in the report; those of the benchmarks neither spill nor wait for single products.

Asked of all their kernels, those for tensors at odd addresses included.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import tile_core as tl
import tile_core.language as T
from tile_core.testing.scripts import load_script
from tile_cuda.ptxas import SERIALIZED, Resources, resources
from tile_cuda.settings import settings

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
SM_90 = {"kind": "cuda", "arch": "sm_90"}
REMARK = (
    "ptxas info    : (C7511) Potential Performance Loss: wgmma.mma_async instructions are serialized due to "
    "insufficient register resources for the wgmma pipeline in the function 'product' in line 626\n"
)


def example(name: str) -> Any:
    """A module of `examples/`."""
    return load_script(EXAMPLES / f"{name}.py")


def wide(**options: Any) -> dict[str, Any]:
    return {"block": (128, 256, 64), "threads": 256, "num_stages": 4, **options}


PRODUCTS = {
    "fp16 4096 K x N": lambda gemm: gemm(4096, 4096, 4096, "float16", **wide(panel=16)),
    "fp16 4096 N x K": lambda gemm: gemm(4096, 4096, 4096, "float16", **wide(panel=16, transpose_b=True)),
    "fp16 8192 K x N": lambda gemm: gemm(8192, 8192, 8192, "float16", **wide(panel=16)),
    "fp16 8192 N x K": lambda gemm: gemm(8192, 8192, 8192, "float16", **wide(panel=16, transpose_b=True)),
    "bf16 ragged": lambda gemm: gemm(4000, 4104, 4056, "bfloat16", **wide(block=(256, 128, 64))),
    "e4m3 8192": lambda gemm: gemm(
        8192, 8192, 8192, "float8_e4m3fn", "bfloat16", **wide(block=(128, 256, 128), transpose_b=True)
    ),
    "fp16 decode": lambda gemm: gemm(16, 8192, 8192, "float16", block=(16, 64, 128), num_stages=4),
}


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILE_CACHE_DIR", str(tmp_path))


def test_a_remark_is_read() -> None:
    assert resources(REMARK) == {"product": Resources(remarks=("C7511",))}
    assert resources("") == {}


def kernels(program: Any, flags: list[str] | None = None) -> list[dict[str, Any]]:
    """What the report says of all kernels; the first one is that of aligned tensors."""
    pytest.importorskip("nvidia.cu13", reason="NVRTC is not installed")
    with settings.override(eager=True):
        kernel = tl.compile(program, target=SM_90, compile_flags=flags or [])
    return list(kernel.report()["kernels"])


def assert_in_registers(found: list[dict[str, Any]]) -> None:
    assert all(kernel["registers"] > 0 for kernel in found)
    assert [(kernel["spilled_bytes"], kernel["remarks"]) for kernel in found] == [(0, [])] * len(found)


@pytest.mark.parametrize("name", PRODUCTS)
def test_products(name: str) -> None:
    found = kernels(PRODUCTS[name](example("gemm").gemm))
    assert len(found) == 2
    assert_in_registers(found)


@pytest.mark.parametrize("name", ["split_k", "stream_k", "grouped"])
def test_schedules(name: str) -> None:
    sizes = (4096, 8, 4096, 4096, 40) if name == "grouped" else (4096, 4096, 4096, 4)
    assert_in_registers(kernels(getattr(example("gemm_schedules"), name)(*sizes)))


def test_weights_of_four_bits() -> None:
    program = example("dequant_gemm").dequant_gemm(16, 8192, 8192, group=128, block=(16, 64, 512), num_stages=3)
    assert_in_registers(kernels(program))


def test_scaled() -> None:
    assert_in_registers(kernels(example("gemm_epilogues").gemm_scaled(4096, 4096, 4096)))


FAST_MATH = ["--use_fast_math"]
ATTENTION = {
    "forward full": ("attention", lambda made: made.attention(8, 32, 4096, 128)),
    "forward causal": ("attention", lambda made: made.attention(8, 32, 4096, 128, causal=True)),
    "window, groups": (
        "attention",
        lambda made: made.attention(8, 32, 4096, 128, causal=True, window=1024, groups=4),
    ),
    "ragged": ("attention", lambda made: made.attention(8, 32, 4100, 128)),
    "lengths": ("attention_varlen", lambda made: made.attention_varlen(8, 32, 4096, 128, causal=True, groups=4)),
    "decode": ("attention_decode", lambda made: made.decode(16, 32, 8, 8192, 128, splits=1)),
    "latent": ("attention_mla", lambda made: made.mla_decode(16, 128, 8192, 512, 64)),
}


@pytest.mark.parametrize("name", ATTENTION)
def test_attention(name: str) -> None:
    module, program = ATTENTION[name]
    assert_in_registers(kernels(program(example(module)), FAST_MATH))


@pytest.mark.parametrize("causal", [False, True])
def test_attention_backward(causal: bool) -> None:
    found = kernels(example("attention_backward").attention_backward(8, 32, 4096, 128, causal=causal), FAST_MATH)
    assert [kernel["threads"][0] for kernel in found] == [128, 384, 128, 128, 256, 128]
    assert_in_registers(found)


def test_a_tile_that_registers_do_not_hold_is_told_of() -> None:
    @T.prim_func
    def program(
        A: T.Tensor((256, 128), "float16"), B: T.Tensor((128, 256), "float16"), C: T.Tensor((256, 256), "float16")
    ):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((256, 64), "float16")
            b = T.alloc_shared((64, 256), "float16")
            c = T.alloc_fragment((256, 256), "float32")
            T.clear(c)
            for k in T.Pipelined(2, num_stages=2):
                T.copy(A[0, k * 64], a)
                T.copy(B[k * 64, 0], b)
                T.gemm(a, b, c)
            T.copy(c, C)

    pytest.importorskip("nvidia.cu13", reason="NVRTC is not installed")
    found = tl.compile(program, target=SM_90).report()["kernels"][0]
    assert found["spilled_bytes"] > 0
    assert set(found["remarks"]) & set(SERIALIZED)
