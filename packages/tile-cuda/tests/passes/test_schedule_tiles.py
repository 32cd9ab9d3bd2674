"""Products that few blocks walk over: right for every grid, and each block runs each of its tiles once."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import tile_core as tl
import tile_core.language as T
from tile_core.errors.runtime import PassConfigError
from tile_cuda.passes.schedule_tiles import Schedule, pairs
from tile_cuda.target import detect

SM_90 = {"kind": "cuda", "arch": "sm_90"}


def product(
    size: tuple[int, int, int],
    block: tuple[int, int, int] = (64, 64, 64),
    out: str = "float16",
    *,
    transpose_b: bool = False,
    panel: int = 0,
    order: str = "row",
    epilogue: str = "",
    stages: int = 3,
) -> Any:
    """C = A B in float16, with an epilogue or none."""
    (m, n, k), (bm, bn, bk) = size, block
    threads = 256 if bm * bn > 8192 else 128

    @T.prim_func
    def program(
        A: T.Tensor((m, k), "float16"),
        B: T.Tensor((n, k) if transpose_b else (k, n), "float16"),
        D: T.Tensor((n,), "float32"),
        C: T.Tensor((m, n), out),
    ):
        with T.Kernel(T.ceildiv(n, bn), T.ceildiv(m, bm), threads=threads) as (bx, by):
            a = T.alloc_shared((bm, bk), "float16")
            b = T.alloc_shared((bn, bk) if transpose_b else (bk, bn), "float16")
            d = T.alloc_shared((bn,), "float32")
            c = T.alloc_fragment((bm, bn), "float32")
            if panel:
                T.use_swizzle(panel, order=order)
            if epilogue == "shared":
                for j in T.Parallel(bn):
                    d[j] = D[bx * bn + j]
            T.clear(c)
            for step in T.Pipelined(T.ceildiv(k, bk), num_stages=stages):
                T.copy(A[by * bm, step * bk], a)
                if transpose_b:
                    T.copy(B[bx * bn, step * bk], b)
                else:
                    T.copy(B[step * bk, bx * bn], b)
                T.gemm(a, b, c, transpose_B=transpose_b)
            if epilogue:
                for i, j in T.Parallel(bm, bn):
                    c[i, j] = c[i, j] + (d[j] if epilogue == "shared" else D[bx * bn + j])
            T.copy(c, C[by * bm, bx * bn])

    return program


def check(program: Any, size: tuple[int, int, int], blocks: int, *, out: str, transpose_b: bool, added: bool) -> Any:
    """Emulated with checks, and on a GPU where there is one, against float64; the report."""
    m, n, k = size
    torch.manual_seed(0)
    a, b, d = torch.randn(m, k).half(), torch.randn(k, n).half(), torch.randn(n)
    expected = a.double() @ b.double() + (d.double() if added else 0)
    right = (b.T if transpose_b else b).contiguous()
    configs = {"tile.persistent": blocks}
    c = torch.full((m, n), float("nan"), dtype=getattr(torch, out))
    kernel = tl.compile(
        program, target=SM_90, execution="emulate", pass_configs={**configs, "tile.emulate_check": True}
    )
    kernel(a, right, d, c)
    tolerance = {"rtol": 2e-3, "atol": 2e-3 * max(1, k) ** 0.5}
    torch.testing.assert_close(c.double(), expected, **tolerance)
    if detect().available:
        c = torch.full((m, n), float("nan"), dtype=getattr(torch, out), device="cuda")
        native = tl.compile(program, target="cuda", pass_configs=configs)
        for _repeat in range(3):
            c.fill_(float("nan"))
            native(a.cuda(), right.cuda(), d.cuda(), c)
            torch.testing.assert_close(c.cpu().double(), expected, **tolerance)
    return kernel.report()


@pytest.mark.emulate
@pytest.mark.parametrize("panel", [0, 1, 3])
@pytest.mark.parametrize(
    ("grid", "blocks", "launched"), [((4, 4), 4, 4), ((5, 4), 8, 8), ((4, 3), 8, 6), ((2, 5), 4, 4), ((3, 2), 2, 2)]
)
def test_every_tile_is_computed(grid: tuple[int, int], blocks: int, launched: int, panel: int) -> None:
    size = grid[1] * 64 - 6, grid[0] * 64 - 8, 136
    program = product(size, panel=panel, order="column" if panel == 3 else "row", transpose_b=panel == 1)
    report = check(program, size, blocks, out="float16", transpose_b=panel == 1, added=False)
    assert report["persistent_blocks"] == [launched]
    assert len(report["shared_by_clusters"]) == 1


@pytest.mark.emulate
@pytest.mark.parametrize("out", ["float16", "float32"])
@pytest.mark.parametrize("block", [(128, 256, 64), (256, 128, 64)], ids=str)
def test_results_that_leave_in_parts(block: tuple[int, int, int], out: str) -> None:
    """Four stages leave less room than a result takes."""
    size = 2 * block[0], 2 * block[1] - 8, 200
    report = check(product(size, block, out, stages=4), size, 2, out=out, transpose_b=False, added=False)
    assert report["persistent_blocks"] == [2]
    assert report["fragments_in_shared"] == []


@pytest.mark.emulate
@pytest.mark.parametrize("epilogue", ["direct", "shared"])
def test_epilogues(epilogue: str) -> None:
    """A tile that a turn writes is read by the turn, and not by the one before."""
    size = 192, 256, 72
    report = check(product(size, epilogue=epilogue), size, 4, out="float16", transpose_b=False, added=True)
    assert report["persistent_blocks"] == [4]


@pytest.mark.emulate
def test_a_loop_of_the_author_over_tiles() -> None:
    """`T.Persistent` with results that leave in parts: each waits for what the tile before it has stored."""
    m, n, k, blocks = 384, 512, 136, 2

    @T.prim_func
    def program(
        A: T.Tensor((m, k), "float16"),
        B: T.Tensor((k, n), "float16"),
        D: T.Tensor((n,), "float32"),
        C: T.Tensor((m, n), "float16"),
    ):
        with T.Kernel(blocks, threads=256) as block:
            a = T.alloc_shared((128, 64), "float16")
            b = T.alloc_shared((64, 256), "float16")
            c = T.alloc_fragment((128, 256), "float32")
            for by, bx in T.Persistent([3, 2], blocks, block):
                T.clear(c)
                for step in T.Pipelined(T.ceildiv(k, 64), num_stages=4):
                    T.copy(A[by * 128, step * 64], a)
                    T.copy(B[step * 64, bx * 256], b)
                    T.gemm(a, b, c)
                for i, j in T.Parallel(128, 256):
                    c[i, j] = c[i, j] + D[bx * 256 + j]
                T.copy(c, C[by * 128, bx * 256])

    report = check(program, (m, n, k), 0, out="float16", transpose_b=False, added=True)
    assert report["specialized_warps"] == 1
    assert report["fragments_in_shared"] == []


@pytest.mark.parametrize("value", ["all", -1, 2.0])
def test_numbers_of_blocks_that_are_none(value: object) -> None:
    with pytest.raises(PassConfigError, match="tile.persistent is"):
        tl.compile(product((64, 64, 64)), target=SM_90, execution="emulate", pass_configs={"tile.persistent": value})


@pytest.mark.emulate
def test_nothing_to_add() -> None:
    size = 192, 256, 0
    check(product(size), size, 4, out="float16", transpose_b=False, added=False)


@pytest.mark.emulate
@pytest.mark.parametrize(("grid", "blocks"), [((3, 3), 4), ((1, 4), 2), ((4, 4), 16), ((4, 4), 0), ((4, 4), 1)])
def test_grids_that_are_not_walked(grid: tuple[int, int], blocks: int) -> None:
    """No pairs, nothing shared along them, no more tiles than blocks, or switched off."""
    size = grid[1] * 64, grid[0] * 64, 64
    report = check(product(size), size, blocks, out="float16", transpose_b=False, added=False)
    assert report["persistent_blocks"] == ([2] if grid == (1, 4) else [])


@pytest.mark.parametrize("panel", [1, 2, 5, 16])
@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("grid", [(4, 6), (5, 6), (6, 5), (33, 16), (2, 2)])
def test_pairs_cover_the_grid_once(grid: tuple[int, int], axis: int, first: int, panel: int) -> None:
    if grid[axis] % 2 and grid[1 - axis] % 2:
        pytest.skip("no pairs cover it")
    from tvm import tirx

    from tile_core.ir.analyzer import Analyzer

    schedule = Schedule(grid, pairs(grid, axis), axis, first, panel)
    simplify = Analyzer().simplify
    seen = [
        tuple(
            int(simplify(place)) for place in schedule.places(tirx.IntImm("int32", number), tirx.IntImm("int32", rank))
        )
        for number in range(schedule.total)
        for rank in range(2)
    ]
    assert sorted(seen) == [(x, y) for x in range(grid[0]) for y in range(grid[1])]


def test_the_bars_kernel_is_walked_by_the_whole_device() -> None:
    pytest.importorskip("nvidia.cu13", reason="NVRTC is not installed")
    kernel = tl.compile(product((4096, 4096, 4096), (128, 256, 64), stages=4), target=SM_90)
    assert kernel.report()["persistent_blocks"] == [128]
    assert kernel.report()["kernels"][0]["attributes"] == {"cluster": [2, 1, 1]}


def test_small_tiles_keep_a_block_each() -> None:
    """Several blocks in a multiprocessor hide each other's ends."""
    kernel = tl.compile(product((4096, 4096, 64), (64, 64, 64)), target=SM_90, execution="emulate")
    assert kernel.report()["persistent_blocks"] == []


@pytest.mark.emulate
@pytest.mark.parametrize("epilogue", ["foreign", "waits", "none"])
def test_what_a_block_of_the_device_means_keeps_the_grid(epilogue: str) -> None:
    """A foreign function may ask which block it runs in, and a loop may wait for what a later tile writes."""
    import tile_cuda.language as TC

    @TC.prim_func
    def program(
        A: TC.Tensor((256, 64), "float16"),
        B: TC.Tensor((64, 256), "float16"),
        Order: TC.Tensor((1,), "int32"),
        C: TC.Tensor((256, 256), "float32"),
    ):
        block = "__device__ float block_of_the_device() { return blockIdx.x + 100.0f * blockIdx.y; }"
        with TC.Kernel(4, 4, threads=128, prelude=block) as (bx, by):
            a, b = TC.alloc_shared((64, 64), "float16"), TC.alloc_shared((64, 64), "float16")
            c = TC.alloc_fragment((64, 64), "float32")
            TC.clear(c)
            for step in TC.Pipelined(1, num_stages=2):
                TC.copy(A[by * 64, step * 64], a)
                TC.copy(B[step * 64, bx * 64], b)
                TC.gemm(a, b, c)
            if epilogue == "foreign":
                for i, j in TC.Parallel(64, 64):
                    c[i, j] = TC.call_extern("float32", "block_of_the_device")
            if epilogue == "waits":
                while Order[0] < 0:
                    TC.sync_threads()
            TC.copy(c, C[by * 64, bx * 64])

    configs = {"tile.persistent": 4, "tile.emulate_check": True}
    kernel = tl.compile(program, target=SM_90, execution="emulate", pass_configs=configs)
    assert kernel.report()["persistent_blocks"] == ([4] if epilogue == "none" else [])
    torch.manual_seed(1)
    a, b, c = torch.randn(256, 64).half(), torch.randn(64, 256).half(), torch.full((256, 256), float("nan"))
    kernel(a, b, torch.zeros(1, dtype=torch.int32), c)
    blocks = torch.arange(256) // 64
    expected = blocks[None, :] + 100.0 * blocks[:, None] if epilogue == "foreign" else a.float() @ b.float()
    torch.testing.assert_close(c, expected, rtol=1e-3, atol=1e-2)
