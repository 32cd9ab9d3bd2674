"""Philox against the published test vectors and an independent implementation; distributions."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import tile_core.language as T
from tile_core.errors import OpArgumentError
from tile_core.interpreter import Program

MASK = 0xFFFFFFFF


def philox(counter: list[int], key: list[int]) -> list[int]:
    for turn in range(10):
        if turn:
            key = [(key[0] + 0x9E3779B9) & MASK, (key[1] + 0xBB67AE85) & MASK]
        first, second = 0xD2511F53 * counter[0], 0xCD9E8D57 * counter[2]
        counter = [
            (second >> 32) ^ counter[1] ^ key[0],
            second & MASK,
            (first >> 32) ^ counter[3] ^ key[1],
            first & MASK,
        ]
    return counter


def stream(seed: int, seq: int, off: int, count: int) -> list[int]:
    key = [seed & MASK, seed >> 32]
    numbers = []
    for position in range(off, off + count):
        block = position >> 2
        numbers.append(philox([block & MASK, block >> 32, seq & MASK, seq >> 32], key)[position & 3])
    return numbers


def test_the_published_vectors() -> None:
    # Random123, kat_vectors: philox 4x32 10.
    assert philox([0] * 4, [0] * 2) == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]
    assert philox([MASK] * 4, [MASK] * 2) == [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]
    assert philox([0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344], [0xA4093822, 0x299F31D0]) == [
        0xD16CFE09,
        0x94FDCCEB,
        0x5001E420,
        0x24126EA1,
    ]


@pytest.mark.parametrize(("seed", "seq", "off"), [(0, 0, 0), (42, 7, 3), (2**40 + 5, 2**33 + 1, 2**34 + 2)])
def test_the_stream(seed: int, seq: int, off: int) -> None:
    @T.prim_func
    def kernel(Out: T.Tensor((11,), "int64")):
        with T.Kernel(1):
            T.rng_init(seed, seq, off)
            for i in T.serial(11):
                Out[i] = T.rng_rand()

    out = torch.zeros(11, dtype=torch.int64)
    Program(kernel)(out)
    assert out.tolist() == stream(seed, seq, off, 11)


def test_every_block_has_its_own_stream() -> None:
    @T.prim_func
    def kernel(Out: T.Tensor((3, 2), "int64")):
        with T.Kernel(2, 3) as (bx, by):
            T.rng_init(9)
            Out[by, bx] = T.rng_rand()

    out = torch.zeros(3, 2, dtype=torch.int64)
    Program(kernel)(out)
    assert out.flatten().tolist() == [stream(9, seq, 0, 1)[0] for seq in range(6)]


@pytest.mark.parametrize("bit", [32, 64])
@pytest.mark.parametrize(("dist", "mean", "deviation"), [("uniform", 0.5, 12**-0.5), ("normal", 0.0, 1.0)])
def test_distributions(bit: int, dist: str, mean: float, deviation: float) -> None:
    dtype = f"float{bit}"

    @T.prim_func
    def kernel(Out: T.Tensor((2000,), dtype)):
        with T.Kernel(1):
            T.rng_init(3)
            for i in T.serial(2000):
                Out[i] = T.rng_rand_float(bit, dist)

    out = torch.zeros(2000, dtype=getattr(torch, dtype))
    Program(kernel)(out)
    assert out.isfinite().all()
    assert abs(out.mean() - mean) < 0.06 * deviation * 2
    assert abs(out.std() - deviation) < 0.06 * deviation
    if dist == "uniform":
        assert out.min() > 0
        assert out.max() <= 1


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: T.rng_rand(), ["rng_init"]),
        (lambda: T.rng_init(1, generator="curandStateMRG32k3a_t"), ["MRG32k3a"]),
        (lambda: T.rng_rand_float(16), ["bit=16"]),
        (lambda: T.rng_rand_float(32, "cauchy"), ["cauchy"]),
    ],
)
def test_refusals(build: Any, words: list[str]) -> None:
    with pytest.raises(OpArgumentError) as caught:

        @T.prim_func
        def kernel(A: T.Tensor((1,), "float32")):
            with T.Kernel(1):
                build()

    assert all(word in str(caught.value) for word in words)
