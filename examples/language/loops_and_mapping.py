"""Loops, and which thread runs which iteration of `T.Parallel`.

    python examples/language/loops_and_mapping.py [--target TARGET] [--figures DIR]

Where nothing else decides, iterations are dealt to P threads in vectors of v: with the row-major number `flat` of an
iteration, `flat // v % P` is its thread. The tables of (8, 8), (2, 32) and (4, 4, 4) with P = 8 and v = 2 differ only
in how the same 64 numbers are taken apart. The other loops say in which order iterations run.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
import torch
from harness import Options, options

import tile_core as tl
import tile_core.language as T
from tile_core.errors import PlottingUnavailableError
from tile_core.layouts import parallel_fragment, plot_layout

THREADS, VECTOR = 8, 2
FIRST_OF_THREAD_0 = {
    (8, 8): [(0, 0), (0, 1), (2, 0), (2, 1)],
    (2, 32): [(0, 0), (0, 1), (0, 16), (0, 17)],
    (4, 4, 4): [(0, 0, 0), (0, 0, 1), (1, 0, 0), (1, 0, 1)],
}


def mappings(chosen: Options) -> None:
    for extents, expected in FIRST_OF_THREAD_0.items():
        fragment = parallel_fragment(extents, threads=THREADS, vector=VECTOR)
        assert fragment.owned_by(0)[:4] == expected
        flat = np.arange(prod(extents)).reshape(extents)
        group = flat // VECTOR
        assert np.array_equal(fragment.thread_table[..., 0], group % THREADS)
        assert np.array_equal(fragment.local_table, group // THREADS * VECTOR + flat % VECTOR)
        title = f"T.Parallel{extents}: P = {THREADS} threads, vectors of v = {VECTOR}"
        name = "loops_and_mapping_" + "x".join(map(str, extents)) + ".png"
        print(plot_layout(fragment, title=title), end="\n\n")
        draw_layout(fragment, chosen, name, title)


def draw_layout(fragment: Any, chosen: Options, name: str, title: str) -> None:
    chosen.figures.mkdir(parents=True, exist_ok=True)
    try:
        plot_layout(fragment, chosen.figures / name, title)
        print(f"figure: {chosen.figures / name}\n")
    except PlottingUnavailableError as error:
        print(f"no {name}: {error.remedy}\n")


@T.prim_func
def parallel(A: T.Tensor((8, 8), T.int32), B: T.Tensor((2, 32), T.int32), C: T.Tensor((4, 4, 4), T.int32)):
    with T.Kernel(1, threads=THREADS):
        for i, j in T.Parallel(8, 8):
            A[i, j] = i * 8 + j
        for i, j in T.Parallel(2, 32):
            B[i, j] = i * 32 + j
        for i, j, k in T.Parallel(4, 4, 4):
            C[i, j, k] = (i * 4 + j) * 4 + k


@T.prim_func
def ordered(Down: T.Tensor((8,), T.int32), Doubled: T.Tensor((8,), T.int32), Sum: T.Tensor((2,), T.int32)):
    with T.Kernel(1, threads=THREADS):
        position = T.alloc_var(T.int32, init=0)
        for i in T.serial(7, -1, -2):  # 7, 5, 3, 1
            Down[position] = i
            position += 1
        for i in T.unroll(4):
            Doubled[i] = 2 * i
        for i in T.vectorized(4, 8):
            Doubled[i] = 2 * i
        tile = T.alloc_shared((4,), T.int32)
        total = T.alloc_fragment((4,), T.int32)
        for stages in [1, 3]:  # a Python list: unrolled while tracing
            T.clear(total)
            for k in T.Pipelined(2, num_stages=stages):
                T.copy(Doubled[k * 4], tile)
                for i in T.Parallel(4):
                    total[i] += tile[i]
            Sum[stages // 2] = total[0] + total[3]


def runs(chosen: Options) -> None:
    kernel = tl.compile(parallel, target=chosen.target)
    tensors = [torch.full(extents, -1, dtype=torch.int32, device=kernel.device) for extents in FIRST_OF_THREAD_0]
    kernel(*tensors)
    assert all(tensor.flatten().tolist() == list(range(64)) for tensor in tensors)
    print("every iteration of the three loops ran once")

    kernel = tl.compile(ordered, target=chosen.target)
    down, doubled, sums = (torch.full((size,), -1, dtype=torch.int32, device=kernel.device) for size in (8, 8, 2))
    kernel(down, doubled, sums)
    print(f"T.serial(7, -1, -2):               {down.tolist()[:4]}")
    print(f"T.unroll(4), T.vectorized(4, 8):   {doubled.tolist()}")
    print(f"T.Pipelined, 1 stage and 3 stages: {sums.tolist()}")
    assert down.tolist() == [7, 5, 3, 1, -1, -1, -1, -1]
    assert doubled.tolist() == [0, 2, 4, 6, 8, 10, 12, 14]
    assert sums.tolist() == [0 + 8 + 6 + 14] * 2


def main(arguments: Sequence[str] | None = None) -> None:
    chosen = options(__doc__, arguments)
    mappings(chosen)
    runs(chosen)


if __name__ == "__main__":
    main()
