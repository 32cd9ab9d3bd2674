"""The measured workloads on rows and vectors at 30 random sizes each, at any address, with rows of NaN."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

import tile_core as tl
import tile_core.language as T

SIZES = 30
INF, NAN = float("inf"), float("nan")
m, n = T.dynamic("m"), T.dynamic("n")
EPS = 1e-6


def shapes(seed: int) -> Iterator[tuple[int, int]]:
    """Rows and columns: small ones, primes, around vectors and lines, long ones."""
    rng = random.Random(seed)
    near = [lanes * count + shift for lanes in (8, 16, 32, 64) for count in (1, 3) for shift in (-1, 0, 1)]
    for at in range(SIZES):
        columns = (rng.choice(near), rng.randint(1, 40), rng.choice([1, 2, 3, 31, 257, 1003, 4099]))[at % 3]
        yield rng.choice([1, 2, 5, 17]), columns


def placed(source: torch.Tensor, offset: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The elements of `source` in the middle of a larger tensor, `offset` elements behind its beginning."""
    whole = torch.full((source.numel() + offset + 65,), 77.0).to(source.dtype)
    view = whole[offset : offset + source.numel()].view(source.shape)
    view.copy_(source)
    return whole, view


def checked(
    run: Callable[..., Any], inputs: list[torch.Tensor], expected: torch.Tensor, seed: int, **close: Any
) -> None:
    """Run on views that begin at random elements; nothing around the output may change."""
    rng = random.Random(seed)
    views = [placed(source, rng.randint(0, 17))[1] for source in inputs]
    offset = rng.randint(0, 17)
    whole, out = placed(torch.full_like(expected, 99.0).to(inputs[0].dtype), offset)
    run(*views, out)
    torch.testing.assert_close(out.double(), expected.double(), equal_nan=True, **close)
    assert bool((whole[:offset] == 77).all() and (whole[offset + expected.numel() :] == 77).all())


def rows(size: tuple[int, int], seed: int) -> torch.Tensor:
    """Random numbers; one row of NaN, an infinity, one NaN."""
    torch.manual_seed(seed)
    source = torch.randn(size) * 3
    if size[0] > 2:
        source[1] = NAN
        source[2, size[1] // 2] = INF
        source[-1, 0] = NAN
    return source


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_add(workloads: Any, dtype: str) -> None:
    run = tl.compile(workloads.add(n, dtype, block=512), target="cpu")
    for seed, size in enumerate(shapes(1)):
        a, b = (rows(size, seed + shift).flatten().to(getattr(torch, dtype)) for shift in (0, 100))
        checked(run, [a, b], a + b, seed, rtol=0, atol=0)


def test_softmax(workloads: Any) -> None:
    for seed, size in enumerate(shapes(2)):
        source = rows(size, seed)
        run = tl.compile(workloads.softmax(m, size[1]), target="cpu")
        expected = source.double().softmax(1)
        checked(run, [source], expected, seed, rtol=2e-6, atol=1e-30)


def test_rms_norm(workloads: Any) -> None:
    for seed, size in enumerate(shapes(3)):
        source, weights = rows(size, seed), torch.randn(size[1])
        kernel = tl.compile(workloads.rms_norm(m, size[1]), target="cpu")
        wide = source.double()
        expected = wide * (wide.square().mean(1, keepdim=True) + EPS).rsqrt() * weights.double()
        checked(kernel, [source, weights], expected, seed, rtol=2e-6, atol=1e-30)


def test_every_loop_of_them_runs_in_vectors(workloads: Any) -> None:
    for program in (workloads.softmax(m, 1003), workloads.rms_norm(m, 1003)):
        report = tl.compile(program, target={"kind": "cpu", "arch": "x86-64-v4"}).report()
        assert [loop["lanes"] for loop in report["vectorized_loops"]] == [16] * 3
