"""Products with a sparse A: places of its elements by metadata, in the emulator, and that the printed forms compile."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from tvm import tirx

import tile_core as tl
import tile_cuda.language as T
from tile_core.errors.emulator import EmulatedInstructionError
from tile_core.testing.matrices import assert_same, from_registers, product, random, to_registers
from tile_core.testing.thread_program import ThreadProgram
from tile_cuda.instructions import (
    address_of,
    mma,
    mma_sp,
    shapes,
    smem_descriptor,
    wgmma_commit,
    wgmma_fence,
    wgmma_sp,
    wgmma_sp_rs,
    wgmma_wait,
)
from tile_cuda.instructions.base import int32
from tile_cuda.instructions.mbarrier import fence_async
from tile_cuda.instructions.shapes import MatrixInstruction

ALL = [instruction for instruction in shapes.TABLE if instruction.sparse]
WARP = [i for i in ALL if i.family == "mma"]
GROUPS = sorted({i.types for i in WARP})
WARPGROUP = [i for i in ALL if i.family == "wgmma" and i.n in (8, 48, 256)]
TRIPLES = sorted({(i.d, i.a, i.b) for i in WARPGROUP})


def sparsify(held: np.ndarray, chunk: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """The full matrix, and four bits a chunk, for held elements at places chosen at random."""
    rows, count = held.shape
    per = chunk // 2
    full = np.zeros((rows, 2 * count), held.dtype)
    bits = np.zeros((rows, count // per), np.uint32)
    for row in range(rows):
        for at in range(count // per):
            first, second = sorted(rng.choice(4, 2, replace=False)) if chunk > 2 else [(0, 1), (2, 3)][rng.integers(2)]
            bits[row, at] = first | second << 2
            if chunk == 2:
                columns = [first // 2]
            else:
                unit = per // 2
                columns = [place * unit + inner for place in (first, second) for inner in range(unit)]
            full[row, at * chunk + np.array(columns)] = held[row, at * per : (at + 1) * per]
    return full, bits


def words_of(instruction: MatrixInstruction, bits: np.ndarray, selector: int, threads: int) -> np.ndarray:
    """Each thread's word; those that are not looked at hold what would be refused."""
    layout = instruction.metadata_layout
    words = np.full((threads, 1), 0xFFFFFFFF, np.uint32)
    for lane in range(layout.lanes):
        places = [layout.element(lane, register) for register in range(layout.registers)]
        word = sum(int(bits[place]) << 4 * register for register, place in enumerate(places))
        words[instruction.metadata_lane(lane, selector)] = word
    return words


@dataclass
class Operands:
    held: np.ndarray
    b: np.ndarray
    c: np.ndarray
    words: np.ndarray
    expected: np.ndarray


def operands(i: MatrixInstruction, selector: int, threads: int, special: bool = False) -> Operands:
    rng = np.random.default_rng(i.k + selector)
    held = random((i.m, i.k // 2), i.a, rng)
    b, c = random((i.k, i.n), i.b, rng, special), random((i.m, i.n), i.d, rng)
    full, bits = sparsify(held, i.chunk, rng)
    expected = product(full, b, c, i.d)
    if special:
        # What is not held is not multiplied: 0 * inf does not appear.
        with np.errstate(invalid="ignore"):
            terms = np.where(full[:, :, None] != 0, full[:, :, None].astype(float) * b[None].astype(float), 0)
            zeros = held_zeros(full, bits, i.chunk)[:, :, None] & ~np.isfinite(b.astype(float))[None]
            expected = (np.where(zeros, np.nan, terms).sum(1) + c.astype(float)).astype(c.dtype)
    return Operands(held, b, c, words_of(i, bits, selector, threads), expected)


def held_zeros(full: np.ndarray, bits: np.ndarray, chunk: int) -> np.ndarray:
    """Where zeros are held."""
    mask = np.zeros(full.shape, bool)
    for row, at in np.ndindex(*bits.shape):
        first, second = int(bits[row, at]) & 3, int(bits[row, at]) >> 2
        for place in {first // 2, second // 2} if chunk == 2 else (first, second):
            mask[row, at * chunk + place] = True
    return mask & (full == 0)


def warp_program(
    i: MatrixInstruction, selector: int, special: bool = False
) -> tuple[ThreadProgram, np.ndarray, np.ndarray]:
    given, made = operands(i, selector, 32, special), ThreadProgram(32)
    assert i.b_layout is not None
    d = made.registers(to_registers(given.c, i.d_layout, i.d), "d")
    a = made.registers(to_registers(given.held, i.a_layout, i.a), "a")
    b = made.registers(to_registers(given.b, i.b_layout, i.b), "b")
    words = made.registers(given.words, "words")
    word = tirx.BufferLoad(words, [int32(0)])
    made.add(mma_sp(*(address_of(array, 0) for array in (d, a, b)), word, instruction=i, selector=selector))
    return made, made.result(d, int(d.shape[0])), given.expected


def selectors(i: MatrixInstruction) -> range:
    return range(4 // i.metadata_threads)


@pytest.mark.parametrize("types", GROUPS, ids="_".join)
def test_results(types: tuple[str, str, str], execute: Any) -> None:
    chosen = [(i, selector) for i in WARP if i.types == types and execute.has(i) for selector in selectors(i)]
    cases = [(i, *warp_program(i, selector)) for i, selector in chosen]
    if types[1] == "f16":
        cases += [(i, *warp_program(i, selector, special=True)) for i, selector in chosen]
    execute(*(made for _i, made, _words, _expected in cases))
    for i, _made, words, expected in cases:
        assert_same(from_registers(words, i.d_layout, i.d), expected)


def plain(made: ThreadProgram, matrix: np.ndarray) -> object:
    """A descriptor of `matrix` (rows × k) without a swizzle: columns of 16 bytes, whole."""
    raw = np.ascontiguousarray(matrix).view(np.uint8)
    rows, size = raw.shape
    image = np.ascontiguousarray(raw.reshape(rows, size // 16, 16).swapaxes(0, 1))
    tile = made.shared(image.nbytes // 4)
    made.fill_shared(tile, image.reshape(-1), fence_async())
    return smem_descriptor(address_of(tile, 0), leading_bytes=rows * 16, stride_bytes=128, swizzle=0)


def warpgroup_program(i: MatrixInstruction, selector: int, form: str) -> tuple[ThreadProgram, np.ndarray, np.ndarray]:
    given, made = operands(i, selector, 128), ThreadProgram(128)
    b = plain(made, given.b.T)
    d = made.registers(to_registers(given.c, i.d_layout, i.d), "d")
    word = tirx.BufferLoad(made.registers(given.words, "words"), [int32(0)])
    if form == "ss":
        a = plain(made, given.held)
        call = wgmma_sp(address_of(d, 0), a, b, int32(1), word, instruction=i, selector=selector)
    else:
        array = made.registers(to_registers(given.held, i.a_layout, i.a), "a")
        call = wgmma_sp_rs(address_of(d, 0), address_of(array, 0), b, int32(1), word, instruction=i, selector=selector)
    made.add(wgmma_fence(), call, wgmma_commit(), wgmma_wait(0))
    return made, made.result(d, int(d.shape[0])), given.expected


@pytest.mark.parametrize("triple", TRIPLES, ids="-".join)
def test_results_of_a_warpgroup(triple: tuple[str, str, str], execute: Any) -> None:
    chosen = [i for i in WARPGROUP if (i.d, i.a, i.b) == triple and i.n < 64 and execute.has(i)]
    listed = [(i, selector, form) for i in chosen for selector in selectors(i) for form in ("ss", "rs")]
    cases = [(case[0], *warpgroup_program(*case)) for case in listed]
    execute(*(made for _i, made, _words, _expected in cases))
    for i, _made, words, expected in cases:
        assert_same(from_registers(words, i.d_layout, i.d), expected)


@pytest.mark.emulate
def test_metadata_out_of_order(emulate: Callable[..., None]) -> None:
    i = WARP[0]
    made, _words, _expected = warp_program(i, 0)
    made.parameters[3][1][:] = 0x11111111
    with pytest.raises(EmulatedInstructionError, match="names no two different places in order"):
        emulate(made)


@pytest.mark.compile
@pytest.mark.parametrize("capability", [80, 89])
def test_the_printed_form_compiles(capability: int, assemble: Callable[..., str]) -> None:
    chosen = [i for i in WARP if i.first == capability]
    report = assemble(f"sm_{capability}", *(warp_program(i, selectors(i)[-1])[0] for i in chosen))
    assert "warning" not in report
    assert report.count("0 bytes spill stores, 0 bytes spill loads") == len(chosen)


@pytest.mark.compile
@pytest.mark.parametrize("form", ["ss", "rs"])
def test_the_printed_form_of_a_warpgroup_compiles(form: str, assemble: Callable[..., str]) -> None:
    report = assemble("sm_90a", *(warpgroup_program(i, selectors(i)[-1], form)[0] for i in WARPGROUP))
    assert "warning" not in report
    assert report.count(" 0 bytes spill stores, 0 bytes spill loads") == len(WARPGROUP)


def test_selectors_and_dense_forms_are_kept_apart() -> None:
    made = ThreadProgram(32)
    array = made.local(4, "d")
    pointers = [address_of(array, 0)] * 3
    dense = shapes.find("mma", (16, 8, 16), "float32", "float16", "float16")
    sparse = shapes.find("mma", (16, 8, 16), "float32", "float16", "float16", sparse=True)
    assert dense is not None and sparse is not None and dense != sparse
    with pytest.raises(ValueError, match="with selector 4"):
        mma_sp(*pointers, int32(0), instruction=sparse, selector=4)
    with pytest.raises(ValueError, match="with selector 0"):
        mma_sp(*pointers, int32(0), instruction=dense)
    with pytest.raises(ValueError, match="mma does not compute mma m16n8k16_f32_f16_f16_sp"):
        mma(*pointers, instruction=sparse)


def by_name(i: MatrixInstruction, selector: int, form: str) -> Any:
    """A kernel on the registers of each thread, whose product is issued by its name in the language."""
    threads = 32 if i.family == "mma" else 128
    counts = [
        layout.registers * shapes.BITS[name] // 32
        for layout, name in zip((i.d_layout, i.a_layout), i.types, strict=False)
    ]
    d_words, a_words = counts
    b_words = 0 if i.b_layout is None else i.b_layout.registers * shapes.BITS[i.types[2]] // 32
    shape = f"m{i.m}n{i.n}k{i.k}"
    held = i.k // 2

    @T.prim_func
    def kernel(
        D: T.Tensor((threads, d_words), "uint32"),
        A: T.Tensor((threads, a_words), "uint32"),
        B: T.Tensor((threads, b_words or 1), "uint32"),
        W: T.Tensor((threads, 1), "uint32"),
        M: T.Tensor((i.m, held), i.a),
        N: T.Tensor((i.n, i.k), i.b),
    ):
        with T.Kernel(1, threads=threads) as _bx:
            tx = T.get_thread_binding(0)
            d = T.alloc_local((d_words,), "uint32")
            a = T.alloc_local((a_words,), "uint32")
            b = T.alloc_local((b_words or 1,), "uint32")
            w = T.alloc_local((1,), "uint32")
            for at in T.serial(d_words):
                d[at] = D[tx, at]
            for at in T.serial(a_words):
                a[at] = A[tx, at]
            w[0] = W[tx, 0]
            if form == "mma":
                for at in T.serial(b_words):
                    b[at] = B[tx, at]
                T.ptx_mma_sp(i.d, shape, "row", "col", i.a, i.b, i.d, a, 0, b, 0, d, 0, w, 0, selector)
            else:
                a_tile = T.alloc_shared((held // 8, i.m, 8), i.a)
                b_tile = T.alloc_shared((i.k // 8, i.n, 8), i.b)
                for row, k in T.Parallel(i.m, held):
                    a_tile[k // 8, row, k % 8] = M[row, k]
                for row, k in T.Parallel(i.n, i.k):
                    b_tile[k // 8, row, k % 8] = N[row, k]
                a_desc = T.alloc_wgmma_desc()
                b_desc = T.alloc_wgmma_desc()
                T.initialize_wgmma_descriptor(a_desc, a_tile, 0, i.m, 8)
                T.initialize_wgmma_descriptor(b_desc, b_tile, 0, i.n, 8)
                T.fence_proxy_async()
                T.warpgroup_arrive()
                if form == "ss":
                    T.ptx_wgmma_sp_ss(
                        i.d, shape, True, True, i.a, i.b, i.d, a_desc, 0, w, 0, selector, b_desc, 0, d, 0, 1, 1, 1
                    )
                else:
                    T.ptx_wgmma_sp_rs(
                        i.d, shape, True, i.a, i.b, i.d, a, 0, w[0], 0, selector, b_desc, 0, d, 0, 1, 1, 1
                    )
                T.warpgroup_commit_batch()
                T.warpgroup_wait(0)
            for at in T.serial(d_words):
                D[tx, at] = d[at]

    return kernel


@pytest.mark.emulate
@pytest.mark.parametrize("form", ["mma", "ss", "rs"])
@pytest.mark.parametrize("selector", [0, 1])
def test_names_of_the_language(form: str, selector: int) -> None:
    family = "mma" if form == "mma" else "wgmma"
    i = shapes.find(family, (16, 8, 32) if form == "mma" else (64, 8, 32), "float32", *["float16"] * 2, sparse=True)
    assert i is not None
    threads = 32 if form == "mma" else 128
    given = operands(i, selector, threads)
    d = to_registers(given.c, i.d_layout, i.d).copy()
    b = np.zeros((threads, 1), np.uint32) if i.b_layout is None else to_registers(given.b, i.b_layout, i.b)
    rest = [to_registers(given.held, i.a_layout, i.a), b, given.words, given.held, np.ascontiguousarray(given.b.T)]
    target = {"kind": "cuda", "arch": "sm_90"}
    kernel = tl.compile(
        by_name(i, selector, form), target=target, execution="emulate", pass_configs={"tile.emulate_check": True}
    )
    kernel(d, *rest)
    assert_same(from_registers(d, i.d_layout, i.d), given.expected)
