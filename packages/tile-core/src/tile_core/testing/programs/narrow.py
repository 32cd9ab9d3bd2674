"""Tensors and tiles of four-bit values, two to a byte: copies, conversions, stores that share a byte."""

from __future__ import annotations

import numpy as np
import torch

import tile_core.language as T
from tile_core.dtypes import DType, casts
from tile_core.testing.program import ProgramTable
from tile_core.testing.run import Run

TABLE = ProgramTable("dtypes")
DTYPES = ("int4", "uint4", "float4_e2m1fn")


def packed(run: Run, *shape: int) -> torch.Tensor:
    """Random values of four bits; `shape` counts them."""
    return run.integers(*shape[:-1], shape[-1] // 2, low=-128, high=128, dtype="int8")


def values(packed: torch.Tensor, dtype: str) -> torch.Tensor:
    """One value an element, as float64."""
    low, high = packed.view(torch.uint8) & 15, packed.view(torch.uint8) >> 4
    codes = torch.stack([low, high], dim=-1).flatten(-2).to(torch.int64)
    if dtype == "int4":
        codes = (codes ^ 8) - 8
    if dtype != "float4_e2m1fn":
        return codes.double()
    table = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6], dtype=torch.float64, device=packed.device)
    return torch.where(codes < 8, table[codes & 7], -table[codes & 7])


def pack(codes: torch.Tensor) -> torch.Tensor:
    """The low four bits of integers, two to a byte."""
    pairs = codes.to(torch.int64) & 15
    return (pairs[..., 0::2] | pairs[..., 1::2] << 4).to(torch.uint8).view(torch.int8)


@TABLE(case="C11", needs=("narrow",))
def copies_of_packed_tiles_keep_the_bytes(run: Run) -> None:
    for dtype in DTYPES:
        for threads in (32, 64, 128):

            @T.prim_func
            def copy(A: T.Tensor((128,), dtype), B: T.Tensor((128,), dtype)):
                with T.Kernel(1, threads=threads):
                    tile = T.alloc_shared((128,), dtype)
                    held = T.alloc_fragment((128,), dtype)
                    T.copy(A, tile)
                    T.copy(tile, held)
                    T.copy(held, B)

            a, b = packed(run, 128), packed(run, 128)
            run(copy, a, b)
            run.equal(b, a)


@TABLE(needs=("narrow",))
def tiles_of_packed_tensors_at_their_edges(run: Run) -> None:
    m, n, bm, bn = 37, 90, 16, 32
    for dtype in DTYPES:

        @T.prim_func
        def copy(A: T.Tensor((m, n), dtype), B: T.Tensor((m, n), dtype), C: T.Tensor((m, n), T.float32)):
            with T.Kernel(T.ceildiv(n, bn), T.ceildiv(m, bm), threads=64) as (bx, by):
                tile, held = T.alloc_shared((bm, bn), dtype), T.alloc_fragment((bm, bn), dtype)
                T.copy(A[by * bm, bx * bn], tile)
                T.copy(tile, B[by * bm, bx * bn])
                T.copy(tile, held)
                for i, j in T.Parallel(bm, bn):
                    if by * bm + i < m:
                        C[by * bm + i, bx * bn + j] = T.cast(held[i, j], "float32") * 2

        a, b, c = packed(run, m, n), packed(run, m, n), run.empty(m, n)
        run(copy, a, b, c)
        run.equal(b, a)
        run.equal(c, 2 * values(a, dtype).float())


SPECIAL = [0.0, -0.0, 0.3, -0.3, 0.25, -0.75, 1.25, 1.75, 2.5, -2.5, 3.5, 5.0, 7.4, 7.5, 15.6, -8.6, 1e4, -1e4]


@TABLE(needs=("narrow", "float16"))
def conversions_to_four_bits_and_back(run: Run) -> None:
    n = 512
    for source in ("float32", "float16", "int32", "int8", "uint8"):
        for dtype in DTYPES:

            @T.prim_func
            def through(A: T.Tensor((n,), source), B: T.Tensor((n,), dtype), C: T.Tensor((n,), source)):
                with T.Kernel(1, threads=64):
                    tile, held = T.alloc_shared((n,), dtype), T.alloc_fragment((n,), dtype)
                    for i in T.Parallel(n):
                        tile[i] = A[i]
                    T.copy(tile, B)
                    T.copy(tile, held)
                    for i in T.Parallel(n):
                        C[i] = held[i]

            if "float" in source:
                special = [*SPECIAL, float("inf"), float("-inf"), float("nan")]
                rest = run.randn(n - len(special)).cpu() * 4
                a = torch.cat([torch.tensor(special, device="cpu"), rest]).to(DType(source).torch)
            else:
                a = (torch.arange(n, device="cpu") % 256).to(DType(source).torch)
            b, c = packed(run, n), run.empty(n, dtype=source)
            run(through, a.to(run.device), b, c)
            with np.errstate(all="ignore"):
                narrow = casts.cast(a.numpy(), DType(source), DType(dtype))
                back = casts.cast(narrow, DType(dtype), DType(source))
            run.equal(c, torch.from_numpy(back))
            bits = narrow.view(np.uint8) if "float" in dtype else narrow.astype(np.int8)
            run.equal(b, pack(torch.from_numpy(bits)).to(run.device))


@TABLE(needs=("narrow",))
def arithmetic_of_four_bits_wraps_or_rounds(run: Run) -> None:
    n = 256
    for dtype in DTYPES:

        @T.prim_func
        def compute(A: T.Tensor((n,), dtype), B: T.Tensor((n,), dtype), C: T.Tensor((4, n), T.float32)):
            with T.Kernel(1, threads=64):
                for i in T.Parallel(n):
                    a, b = A[i], B[i]
                    C[0, i] = T.cast(a + b, "float32")
                    C[1, i] = T.cast(a * b, "float32")
                    C[2, i] = T.cast(T.if_then_else(a < b, a - b, b), "float32")
                    C[3, i] = T.cast(a + T.cast(3, dtype), "float32")

        a, b, c = packed(run, n), packed(run, n), run.empty(4, n)
        run(compute, a, b, c)
        x, y = values(a, dtype).cpu(), values(b, dtype).cpu()
        exact = torch.stack([x + y, x * y, torch.where(x < y, x - y, y), x + 3])
        kind = "float32" if "float" in dtype else "int32"
        wide = exact.to(DType(kind).torch).numpy()
        fitted = casts.cast(casts.cast(wide, DType(kind), DType(dtype)), DType(dtype), DType("float32"))
        run.equal(c, torch.from_numpy(fitted))


@TABLE(needs=("narrow",))
def stores_beside_another_half_leave_it_alone(run: Run) -> None:
    n, block = 600, 3

    @T.prim_func
    def blocks(A: T.Tensor((n,), T.int4), B: T.Tensor((n,), T.int4)):
        with T.Kernel(n // block, threads=32) as bx:
            for i in T.Parallel(block):
                B[bx * block + i] = A[bx * block + i]

    @T.prim_func
    def places(B: T.Tensor((8,), "uint4")):
        with T.Kernel(1, threads=32):
            B[3] = 5
            B[4] = 9

    @T.prim_func
    def in_place(A: T.Tensor((3, 10), T.int4)):
        with T.Kernel(1, threads=32):
            for i, j in T.Parallel(3, 7):
                A[i, j + 1] = A[i, j + 1] + 1

    a, b = packed(run, n), packed(run, n)
    run(blocks, a, b)
    run.equal(b, a)
    marked = torch.full((4,), 0x21, dtype=torch.uint8)
    run(places, marked.view(torch.int8))
    run.equal(marked, [0x21, 0x51, 0x29, 0x21])
    a = packed(run, 3, 10)
    expected = values(a, "int4")
    expected[:, 1:8] += 1
    run(in_place, a)
    run.equal(a, pack(expected.to(torch.int64)))


@TABLE(needs=("narrow",))
def transposed_and_strided_stores(run: Run) -> None:
    m, n = 24, 36

    @T.prim_func
    def kernel(A: T.Tensor((m, n), T.int4), B: T.Tensor((n, m), T.int4), C: T.Tensor((m, 2 * n), T.int4)):
        with T.Kernel(1, threads=64):
            for i, j in T.Parallel(m, n):
                B[j, i] = A[i, j]
                C[i, 2 * j + 1] = A[i, j]

    a, b, c = packed(run, m, n), packed(run, n, m), packed(run, m, 2 * n)
    expected = values(c, "int4")
    expected[:, 1::2] = values(a, "int4")
    run(kernel, a, b, c)
    run.equal(b, pack(values(a, "int4").T.to(torch.int64)))
    run.equal(c, pack(expected.to(torch.int64)))


@TABLE(needs=("narrow",))
def symbolic_and_strided_packed_tensors(run: Run) -> None:
    n, stride = T.dynamic("n"), T.dynamic("stride")

    @T.prim_func
    def widen(
        A: T.StridedTensor((3, n), (stride, 1), "int4"), B: T.Tensor((3, n), T.int32), C: T.Tensor((3, n), "uint4")
    ):
        with T.Kernel(3, threads=32) as row:
            for j in T.Parallel(n):
                B[row, j] = A[row, j]
                C[row, j] = T.cast(A[row, j], "uint4")

    whole = packed(run, 3, 26)
    for columns in (2, 10, 26):
        a, b, c = whole[:, : columns // 2], run.empty(3, columns, dtype="int32"), packed(run, 3, columns)
        run(widen, a, b, c)
        run.equal(b, values(a, "int4").to(torch.int32))
        run.equal(c, a)


@TABLE(needs=("narrow",))
def tiles_of_an_odd_number_ofvalues(run: Run) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((4, 14), T.int4), B: T.Tensor((4, 14), T.int4), C: T.Tensor((4,), T.int32)):
        with T.Kernel(1, threads=32):
            tile, own = T.alloc_shared((4, 7), T.int4), T.alloc_fragment((4, 7), T.int4)
            wide, sums = T.alloc_fragment((4, 7), T.int32), T.alloc_fragment((4,), T.int32)
            T.clear(B)
            T.copy(A[0:4, 3:10], tile)
            T.copy(tile, own)
            T.copy(own, B[0:4, 7:14])
            T.copy(own, wide)
            T.reduce_sum(wide, sums, dim=1)
            T.copy(sums, C)

    a, b, c = packed(run, 4, 14), packed(run, 4, 14), run.empty(4, dtype="int32")
    run(kernel, a, b, c)
    part = values(a, "int4")[:, 3:10].to(torch.int64)
    run.equal(b, pack(torch.cat([torch.zeros_like(part), part], dim=1)))
    run.equal(c, part.sum(1).to(torch.int32))


@TABLE(needs=("narrow",))
def fills_and_values_of_a_thread(run: Run) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((4, 16), T.int4), B: T.Tensor((4, 16), "float4_e2m1fn"), C: T.Tensor((16,), T.int4)):
        with T.Kernel(1, threads=32):
            tile, floats = T.alloc_shared((4, 16), T.int4), T.alloc_fragment((4, 16), "float4_e2m1fn")
            own = T.alloc_local((16,), T.int4)
            T.fill(tile, -3)
            T.fill(tile[0:2, 3:9], 5)
            T.fill(floats, 1.5)
            T.copy(tile, A)
            T.copy(floats, B)
            for j in T.serial(16):
                own[j] = T.cast(j, "int4")
            for j in T.serial(16):
                C[j] = own[15 - j]

    a, b, c = packed(run, 4, 16), packed(run, 4, 16), packed(run, 16)
    run(kernel, a, b, c)
    expected = torch.full((4, 16), -3, dtype=torch.int64)
    expected[0:2, 3:9] = 5
    run.equal(a, pack(expected))
    run.equal(b, torch.full((4, 8), 0x33, dtype=torch.int8))
    run.equal(c, pack(15 - torch.arange(16)))


@TABLE(needs=("narrow",))
def reductions_and_transposes_of_four_bits(run: Run) -> None:
    @T.prim_func
    def kernel(
        A: T.Tensor((8, 32), T.int4),
        Sums: T.Tensor((8,), T.int4),
        Most: T.Tensor((8,), T.int4),
        B: T.Tensor((32, 8), T.int4),
    ):
        with T.Kernel(1, threads=32):
            tile, turned = T.alloc_shared((8, 32), T.int4), T.alloc_shared((32, 8), T.int4)
            sums, most = T.alloc_fragment((8,), T.int4), T.alloc_fragment((8,), T.int4)
            T.copy(A, tile)
            T.reduce_sum(tile, sums, dim=1)
            T.reduce_max(tile, most, dim=1)
            T.transpose(tile, turned)
            T.copy(sums, Sums)
            T.copy(most, Most)
            T.copy(turned, B)

    a, sums, most, b = packed(run, 8, 32), packed(run, 8), packed(run, 8), packed(run, 32, 8)
    a[5] = -0x78  # the least value everywhere
    run(kernel, a, sums, most, b)
    wide = values(a, "int4").to(torch.int64)
    run.equal(sums, pack(wide.sum(1)))
    run.equal(most, pack(wide.amax(1)))
    run.equal(b, pack(wide.T))
