"""What ptxas says of kernels is in the report; those of the benchmarks neither spill nor wait for single products."""

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
    "fp16 8192 N x K": lambda gemm: gemm(8192, 8192, 8192, "float16", **wide(transpose_b=True)),
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


def fast_kernel(program: Any, flags: list[str] | None = None) -> dict[str, Any]:
    """What the report says of the kernel that aligned tensors take."""
    pytest.importorskip("cuda.bindings.nvrtc", reason="NVRTC is not installed")
    kernel = tl.compile(program, target=SM_90, compile_flags=flags or [])
    return dict(kernel.report()["kernels"][0])


@pytest.mark.parametrize("name", PRODUCTS)
def test_products(name: str) -> None:
    found = fast_kernel(PRODUCTS[name](example("gemm").gemm))
    assert found["registers"] > 0
    assert (found["spilled_bytes"], found["remarks"]) == (0, [])


@pytest.mark.parametrize("name", ["split_k", "stream_k", "grouped"])
def test_schedules(name: str) -> None:
    sizes = (4096, 8, 4096, 4096, 40) if name == "grouped" else (4096, 4096, 4096, 4)
    found = fast_kernel(getattr(example("gemm_schedules"), name)(*sizes))
    assert (found["spilled_bytes"], found["remarks"]) == (0, [])


def test_weights_of_four_bits() -> None:
    program = example("dequant_gemm").dequant_gemm(16, 8192, 8192, group=128, block=(16, 64, 512), num_stages=3)
    found = fast_kernel(program)
    assert (found["spilled_bytes"], found["remarks"]) == (0, [])


def test_scaled() -> None:
    found = fast_kernel(example("gemm_epilogues").gemm_scaled(4096, 4096, 4096))
    assert (found["spilled_bytes"], found["remarks"]) == (0, [])


FAST_MATH = ["--use_fast_math"]
ATTENTION = {
    "forward full": ("attention", lambda made: made.attention(8, 32, 4096, 128)),
    "forward causal": ("attention", lambda made: made.attention(8, 32, 4096, 128, causal=True)),
    "decode": ("attention_decode", lambda made: made.decode(16, 32, 8, 8192, 128, splits=1)),
}


@pytest.mark.parametrize("name", ATTENTION)
def test_attention(name: str) -> None:
    module, program = ATTENTION[name]
    found = fast_kernel(program(example(module)), FAST_MATH)
    assert found["registers"] > 0
    assert (found["spilled_bytes"], found["remarks"]) == (0, [])


@pytest.mark.parametrize("causal", [False, True])
def test_attention_backward(causal: bool) -> None:
    """All of its kernels but the one for tensors at odd addresses, which copies with its 256 threads."""
    pytest.importorskip("cuda.bindings.nvrtc", reason="NVRTC is not installed")
    program = example("attention_backward").attention_backward(8, 32, 4096, 128, causal=causal)
    with settings.override(eager=True):
        found = tl.compile(program, target=SM_90, compile_flags=FAST_MATH).report()["kernels"]
    assert [kernel["threads"][0] for kernel in found] == [128, 128, 384, 256, 128, 128]
    fast = [kernel for kernel in found if kernel["threads"][0] != 256]
    assert {(kernel["spilled_bytes"], *kernel["remarks"]) for kernel in fast} == {(0,)}


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

    found = fast_kernel(program)
    assert found["spilled_bytes"] > 0
    assert set(found["remarks"]) & set(SERIALIZED)
