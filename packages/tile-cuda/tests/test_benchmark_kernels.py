"""The kernels of `benchmarks/gpu_kernels.py` at small sizes, emulated, against torch; and that they compile."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch

import tile_core as tl
from tile_core.testing.scripts import load_script

PATH = Path(__file__).resolve().parents[3] / "benchmarks" / "gpu_kernels.py"
kernels: Any = load_script(PATH)

TARGET = {"kind": "cuda", "arch": "sm_90"}
ADDS = {
    "Parallel(256)": lambda n, dtype: kernels.add_parallel(n, dtype, 256),
    "Parallel(2048)": lambda n, dtype: kernels.add_parallel(n, dtype),
    "fragments": lambda n, dtype: kernels.add_fragments(n, dtype),
    "shared": lambda n, dtype: kernels.add_shared(n, dtype),
    "by hand": lambda n, dtype: kernels.add_vectorized(n, dtype),
}


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILE_CACHE_DIR", str(tmp_path))


def run(program: Any, *arguments: torch.Tensor) -> str:
    """Run the program emulated, with checked accesses; its printed source."""
    kernel = tl.compile(program, target=TARGET, execution="emulate", pass_configs={"tile.emulate_check": True})
    kernel(*arguments)
    return str(tl.compile(program, target=TARGET, execution="emulate").get_kernel_source())


def poisoned(*shape: int, dtype: torch.dtype = torch.float16) -> torch.Tensor:
    return torch.full(shape, 0xFF, dtype=torch.uint8).repeat_interleave(dtype.itemsize, -1).view(dtype)


@pytest.mark.emulate
@pytest.mark.parametrize("n", [4096, 4097, 4095])
@pytest.mark.parametrize("name", ADDS)
def test_adds(name: str, n: int) -> None:
    a, b, c = torch.randn(n).half(), torch.randn(n).half(), poisoned(n)
    source = run(ADDS[name](n, "float16"), a, b, c)
    assert torch.equal(c, a + b)
    if name != "Parallel(256)":
        assert len(re.findall(r"= \*reinterpret_cast<const uint4\*>\(&[AB]\[", source)) >= 2
        assert re.search(r"\*reinterpret_cast<uint4\*>\(&C\[", source)


@pytest.mark.emulate
@pytest.mark.parametrize("n", [1024, 1021])
def test_adds_of_rows(n: int) -> None:
    a, b, c = torch.randn(5, n).half(), torch.randn(5, n).half(), poisoned(5, n)
    source = run(kernels.add_rows(5, n, "float16"), a, b, c)
    assert torch.equal(c, a + b)
    # A thread that also adds an element beside the vectors waits for both at the same time.
    loads = [source.index(f"= *reinterpret_cast<const uint4*>(&{tensor}[") for tensor in "AB"]
    assert max(loads) < source.index("C[by *")


@pytest.mark.emulate
@pytest.mark.parametrize("n", [1024, 1021])
def test_softmax(n: int) -> None:
    x, y = torch.randn(3, n).half() * 4, poisoned(3, n)
    run(kernels.softmax(3, n, "float16"), x, y)
    torch.testing.assert_close(y.float(), torch.softmax(x.float(), 1), rtol=2e-3, atol=1e-5)


@pytest.mark.emulate
@pytest.mark.parametrize("n", [1024, 1021])
def test_norms(n: int) -> None:
    x, w, b = torch.randn(3, n).half(), torch.randn(n).half(), torch.randn(n).half()
    y, z = poisoned(3, n), poisoned(3, n)
    run(kernels.rms_norm(3, n, "float16"), x, w, y)
    run(kernels.layer_norm(3, n, "float16"), x, w, b, z)
    wide = (x.float(), w.float(), b.float())
    expected = torch.nn.functional.rms_norm(wide[0], (n,), wide[1], 1e-6)
    torch.testing.assert_close(y.float(), expected, rtol=2e-3, atol=2e-3)
    expected = torch.nn.functional.layer_norm(wide[0], (n,), *wide[1:], 1e-5)
    torch.testing.assert_close(z.float(), expected, rtol=2e-3, atol=4e-3)


@pytest.mark.emulate
def test_cast_per_token() -> None:
    x = torch.randn(3, 1024).bfloat16()
    x[1] = 0
    s, y = poisoned(3, dtype=torch.float32), poisoned(3, 1024, dtype=torch.float8_e4m3fn)
    run(kernels.cast_per_token(3, 1024, "bfloat16"), x, s, y)
    largest = x.float().abs().amax(1).clamp(min=1e-4)
    torch.testing.assert_close(s, largest / 448)
    torch.testing.assert_close(y.float() * s[:, None], x.float(), rtol=0.07, atol=1e-3)


@pytest.mark.emulate
def test_swiglu() -> None:
    g, u, y = torch.randn(3000).half() * 3, torch.randn(3000).half(), poisoned(3000)
    run(kernels.swiglu(3000, "float16"), g, u, y)
    torch.testing.assert_close(y.float(), torch.nn.functional.silu(g.float()) * u.float(), rtol=2e-3, atol=1e-4)


@pytest.mark.emulate
@pytest.mark.parametrize(("m", "n"), [(128, 64), (70, 90)])
def test_transpose(m: int, n: int) -> None:
    x, y = torch.randn(2, m, n).half(), poisoned(2, n, m)
    run(kernels.transpose(2, m, n, "float16"), x, y)
    assert torch.equal(y, x.transpose(1, 2))


@pytest.mark.emulate
def test_cumsum() -> None:
    x, y = torch.randint(-9, 9, (3, 2048)).float(), poisoned(3, 2048, dtype=torch.float32)
    source = run(kernels.cumsum(3, 2048, "float32"), x, y)
    assert torch.equal(y, x.cumsum(1))
    assert source.split("__global__")[1].count("__syncthreads()") == 1


@pytest.mark.emulate
def test_topk() -> None:
    x = torch.randint(-500, 500, (3, 1024)).half()
    v, places = poisoned(3, 8), torch.full((3, 8), -1, dtype=torch.int32)
    run(kernels.topk(3, 1024, 8, "float16"), x, v, places)
    assert torch.equal(v, torch.topk(x, 8, dim=1).values)
    assert torch.equal(x.gather(1, places.long()), v)
    assert all(len(set(row.tolist())) == 8 for row in places)
