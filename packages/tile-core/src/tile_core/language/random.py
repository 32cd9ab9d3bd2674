"""Random numbers: Philox4x32-10, a counter-based generator, in plain integer arithmetic.

The streams are those of cuRAND's `curandStatePhilox4_32_10_t` for the same seed, sequence and offset, on every
backend. (J. Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011.)
"""

from __future__ import annotations

import math
import weakref
from dataclasses import dataclass
from typing import Any

from tile_core.dtypes import DType
from tile_core.errors.ops import OpArgumentError
from tile_core.frontend.builder import Builder, current_builder
from tile_core.frontend.values import Expr, Var, VarCell, unwrap
from tile_core.language.allocate import alloc_var
from tile_core.language.launch_queries import (
    get_block_bindings,
    get_block_extents,
    get_thread_bindings,
    get_thread_extents,
)
from tile_core.language.math import log, sin, sqrt
from tile_core.language.select import Select

__all__ = ["rng_init", "rng_rand", "rng_rand_float"]

PHILOX = "curandStatePhilox4_32_10_t"
_UINT32, _UINT64, _FLOAT64 = DType("uint32"), DType("uint64"), DType("float64")
_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_WEYL = (0x9E3779B9, 0xBB67AE85)
_ROUNDS = 10


@dataclass(frozen=True)
class _Generator:
    """`position` counts the numbers drawn; a block of the cipher gives four."""

    key: tuple[Expr, Expr]
    sequence: tuple[Expr, Expr]
    position: VarCell


_generators: weakref.WeakKeyDictionary[Builder, _Generator] = weakref.WeakKeyDictionary()


def _bound(name: str, value: Expr) -> Var:
    return Var(current_builder().bind(name, value.ir))


def _halves(name: str, value: Any) -> tuple[Expr, Expr]:
    whole = _bound(name, Expr(unwrap(value, _UINT64)))
    return _bound(f"{name}_low", whole.astype(_UINT32)), _bound(f"{name}_high", (whole >> 32).astype(_UINT32))


def rng_init(seed: Any, seq: Any = None, off: Any = 0, generator: str = PHILOX) -> None:
    """Start the generator of this thread.

    Args: seed: the key; any integer. seq: which of 2**64 independent streams; by default the number of this thread in
    the whole grid (of this block, for kernels that do not state `threads`). off: how many numbers of the stream to
    skip. generator: Philox is the one that every backend has.

    Raises:
        OpArgumentError: another generator.

    Example:
        T.rng_init(1234, seq=0)
        X[0] = T.rng_rand_float()
    """
    if generator != PHILOX:
        raise OpArgumentError(f"rng_init: generator={generator!r}", remedy=f"use {PHILOX!r}")
    stream = _linear_index() if seq is None else seq
    key, sequence = _halves("seed", seed), _halves("sequence", stream)
    position = alloc_var(_UINT64, init=Expr(unwrap(off, _UINT64)))
    _generators[current_builder()] = _Generator(key, sequence, position)


def _linear_index() -> Expr:
    kernel = current_builder().kernel
    index: Any = 0
    for block, extent in reversed(list(zip(get_block_bindings(), get_block_extents(), strict=True))):
        index = index * extent + block
    if not kernel.threads_given:
        return Expr(unwrap(index, _UINT64))
    for thread, extent in reversed(list(zip(get_thread_bindings(), get_thread_extents(), strict=True))):
        index = index * extent + thread
    return Expr(unwrap(index, _UINT64))


def _draw(count: int) -> list[Expr]:
    """The next `count` numbers of the stream."""
    generator = _generators.get(current_builder())
    if generator is None:
        raise OpArgumentError("the random generator is not started", remedy="call T.rng_init(seed) in the kernel first")
    start = _bound("draw", Expr(generator.position.ir))
    generator.position.store(start + count)
    return [_number(generator, start + step) for step in range(count)]


def _number(generator: _Generator, position: Expr) -> Expr:
    block = _bound("block", position >> 2)
    lane = _bound("lane", (position & 3).astype(_UINT32))
    a, b, c, d = _philox((*_counter(block), *generator.sequence), generator.key)
    chosen = Select(lane == 0, a, Select(lane == 1, b, Select(lane == 2, c, d)))
    return _bound("random", chosen)


def _counter(block: Expr) -> tuple[Expr, Expr]:
    return _bound("low", block.astype(_UINT32)), _bound("high", (block >> 32).astype(_UINT32))


def _philox(counter: tuple[Expr, Expr, Expr, Expr], key: tuple[Expr, Expr]) -> tuple[Expr, Expr, Expr, Expr]:
    a, b, c, d = counter
    for turn in range(_ROUNDS):
        round_key = [part + (turn * weyl) % (1 << 32) for part, weyl in zip(key, _WEYL, strict=True)]
        first, second = (
            _bound("product", word.astype(_UINT64) * factor) for word, factor in zip((a, c), _MULTIPLIERS, strict=True)
        )
        a, b, c, d = (
            _bound("a", (second >> 32).astype(_UINT32) ^ b ^ round_key[0]),
            _bound("b", second.astype(_UINT32)),
            _bound("c", (first >> 32).astype(_UINT32) ^ d ^ round_key[1]),
            _bound("d", first.astype(_UINT32)),
        )
    return a, b, c, d


def rng_rand() -> Expr:
    """The next number of the stream, a uniform uint32.

    Raises:
        OpArgumentError: without `T.rng_init`.

    Example:
        T.rng_init(1234, seq=0)
        bits = T.rng_rand()
    """
    return _draw(1)[0]


def rng_rand_float(bit: int = 32, dist: str = "uniform") -> Expr:
    """A random float32 (`bit=32`) or float64 (`bit=64`).

    Args: dist: "uniform" in (0, 1], from one number (two for float64); or "normal", of mean 0 and deviation 1, from
    two (four).

    Raises:
        OpArgumentError: without `T.rng_init`, another width or distribution.

    Example:
        T.rng_init(1234, seq=0)
        X[0] = T.rng_rand_float(dist="normal")
    """
    if bit not in (32, 64) or dist not in ("uniform", "normal"):
        raise OpArgumentError(
            f"rng_rand_float: bit={bit!r}, dist={dist!r}", remedy='bit is 32 or 64, dist "uniform" or "normal"'
        )
    if dist == "uniform":
        return _uniform(bit)
    radius, angle = _uniform(bit), _uniform(bit)
    return sqrt(log(radius) * -2.0) * (sin(angle * (2 * math.pi)))


def _uniform(bit: int) -> Expr:
    if bit == 32:
        (number,) = _draw(1)
        return _bound("uniform", number.astype("float32") * 2.0**-32 + 2.0**-33)
    low, high = _draw(2)
    bits = low.astype(_UINT64) ^ (high.astype(_UINT64) << 21)
    return _bound("uniform", bits.astype(_FLOAT64) * 2.0**-53 + 2.0**-54)
