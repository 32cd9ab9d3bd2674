"""Instructions of warps and warpgroups written by hand: against numpy, what they refuse, and that they compile."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tile_core as tl
import tile_cuda.language as T
from tile_core.errors.emulator import EmulatedUnwrittenError
from tile_core.errors.interpreter import NoReferenceMeaningError
from tile_core.errors.ops import AllocationError, OpArgumentError, OpDTypeError
from tile_core.errors.passes import ThreadIndexError, UnsupportedOnTargetError
from tile_cuda.target import detect

SM_90 = {"kind": "cuda", "arch": "sm_90"}
CHECKED = {"tile.emulate_check": True}
_found = detect()
_GPU = (pytest.mark.device, pytest.mark.skipif(not _found.available, reason=_found.reason))


@pytest.fixture(params=[pytest.param("emulate", marks=pytest.mark.emulate), pytest.param("gpu", marks=_GPU)])
def run(request: pytest.FixtureRequest, on_gpu: Any) -> Any:
    """Run a program on arrays of the host, emulated with checks or on a GPU; the arrays after it."""

    def emulated(program: Any, *arrays: np.ndarray) -> list[np.ndarray]:
        copies = [aligned(array) for array in arrays]
        tl.compile(program, target=SM_90, execution="emulate", pass_configs=CHECKED)(*copies)
        return copies

    return emulated if request.param == "emulate" else on_gpu


def aligned(array: np.ndarray) -> np.ndarray:
    """A copy at a multiple of 256 bytes."""
    memory = np.empty(array.nbytes + 256, np.uint8)
    start = -memory.ctypes.data % 256
    copy = memory[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


def numbers(shape: tuple[int, ...], dtype: str = "float16") -> np.ndarray:
    """Small whole numbers."""
    return np.random.default_rng(int(np.prod(shape))).integers(-3, 4, shape).astype(dtype)


def poisoned(shape: tuple[int, ...]) -> np.ndarray:
    """A float32 output of NaN."""
    return np.full(shape, np.nan, "float32")


def warp_product(k: int, dtype: str, *, total: str = "float32", pointers: bool = False) -> Any:
    """C = A Bᵀ of 16 × 16 by one warp: `ldmatrix`, two `mma` a step, `mma_store`."""
    depth = 256 // (16 if dtype == "float16" else 8)
    short = "fp16" if dtype == "float16" else dtype
    shape = f"m16n8k{depth}"
    part = depth // 2

    @T.prim_func
    def kernel(A: T.Tensor((16, k), dtype), B: T.Tensor((16, k), dtype), C: T.Tensor((16, 16), total)):
        with T.Kernel(1, threads=32) as _bx:
            a_tile = T.alloc_shared((16, k), dtype)
            b_tile = T.alloc_shared((16, k), dtype)
            a = T.alloc_local((part,), dtype)
            b = T.alloc_local((part,), dtype)
            c = T.alloc_local((8,), total)
            lane = T.get_lane_idx()
            T.copy(A, a_tile)
            T.copy(B, b_tile)
            T.mma_fill(total, 8, c.data if pointers else c, 0)
            for step in T.serial(k // depth):
                row, column = T.get_ldmatrix_offset("A", lane, 0, k, dtype)
                T.ptx_ldmatrix(False, 4, T.access_ptr(a_tile[row, step * depth + column], "r"), T.access_ptr(a[0], "w"))
                row, column = T.get_ldmatrix_offset("B", lane, 0, k, dtype, transposed=True)
                T.ptx_ldmatrix(False, 4, b_tile[row, step * depth + column], b)
                left, right, sums = (a.data, b.data, c.data) if pointers else (a, b, c)
                for half in range(2):
                    at = half * part // 2
                    T.ptx_mma(
                        total,
                        shape,
                        "row",
                        "col",
                        short,
                        short,
                        total,
                        left,
                        0,
                        right,
                        at,
                        sums,
                        half * 4,
                        T.bool(False),
                    )
            T.mma_store(total, 16, 16, T.access_ptr(C[0, 0], "w"), c, 0, 16)

    return kernel


@pytest.mark.parametrize(("k", "dtype"), [(16, "float16"), (48, "float16"), (64, "int8")])
@pytest.mark.parametrize("pointers", [False, True])
def test_a_warp_multiplies(run: Any, k: int, dtype: str, pointers: bool) -> None:
    total = "float32" if dtype == "float16" else "int32"
    a, b = numbers((16, k), dtype), numbers((16, k), dtype)[::-1].copy()
    c = np.full((16, 16), 77, total)
    _a, _b, found = run(warp_product(k, dtype, total=total, pointers=pointers), a, b, c)
    assert (found == a.astype("int64") @ b.astype("int64").T).all()


@pytest.mark.emulate
def test_results_are_stored_to_shared_rows_and_flat_memory() -> None:
    @T.prim_func
    def kernel(C: T.Tensor((300,), "float32"), D: T.Tensor((2, 20, 24), "float32")):
        with T.Kernel(1, threads=32) as _bx:
            tile = T.alloc_shared((2, 20, 24), "float32")
            c = T.alloc_local((8,), "float32")
            T.clear(tile)
            lane = T.get_lane_idx()
            for at in T.serial(8):
                row, column = T.mma_store_index_map(lane, at)
                c[at] = row * 100 + column
            T.mma_store("float32", 16, 16, C[5], c, 0, 17)
            T.mma_store("float32", 16, 16, tile[1, 2, 8], c, 0, 24)
            T.copy(tile, D)

    c, d = np.full(300, -1, "float32"), poisoned((2, 20, 24))
    tl.compile(kernel, target=SM_90, execution="emulate", pass_configs=CHECKED)(c, d)
    expected = np.arange(16)[:, None] * 100 + np.arange(16)
    flat = np.full(300, -1, "float32")
    for row in range(16):
        flat[5 + row * 17 : 5 + row * 17 + 16] = expected[row]
    tile = np.zeros((2, 20, 24), "float32")
    tile[1, 2:18, 8:24] = expected
    assert (c == flat).all()
    assert (d == tile).all()


def warpgroup_product(*, a_in: str, b_order: str, waits: bool = True) -> Any:
    """C = A B of 64 × 64 × 64 by one warpgroup: A in shared memory or registers, the k of B neighbours or not."""

    @T.prim_func
    def kernel(A: T.Tensor((64, 64), "float16"), B: T.Tensor((64, 64), "float16"), C: T.Tensor((64, 64), "float32")):
        with T.Kernel(1, threads=128) as _bx:
            a_tile = T.alloc_shared((8, 64, 8), "float16")
            b_tile = T.alloc_shared((64, 64), "float16")
            a = T.alloc_local((32,), "float16")
            c = T.alloc_local((32,), "float32")
            a_desc = T.alloc_wgmma_desc()
            b_desc = T.alloc_descriptor("wgmma")
            tx = T.get_thread_binding(0)
            for i in T.serial(32):
                c[i] = 7.0
            for i, j in T.Parallel(64, 64):
                a_tile[j // 8, i, j % 8] = A[i, j]
            if b_order == "k":
                # Rows of n, of 64 k in 128 bytes, swizzled.
                for k, n in T.Parallel(64, 64):
                    b_tile[n, (k // 8 ^ n % 8) * 8 + k % 8] = B[k, n]
                T.initialize_wgmma_descriptor(b_desc, T.access_ptr(b_tile), 1, 0, 64)
            else:
                for k, n in T.Parallel(64, 64):
                    b_tile[k, (n // 8 ^ k % 8) * 8 + n % 8] = B[k, n]
                T.initialize_wgmma_descriptor(b_desc, b_tile, 1, 0, 64)
            T.initialize_wgmma_descriptor(a_desc, a_tile[0, 0, 0], 0, 64, 8)
            T.increase_descriptor_offset(a_desc, 0)
            for i in T.serial(32):
                a[i] = A[tx // 32 * 16 + tx % 32 // 4 + i // 2 % 2 * 8, i // 4 * 8 + tx % 4 * 2 + i % 2]
            T.fence_proxy_async()
            T.sync_threads()
            T.warpgroup_arrive()
            for step in range(4):
                b_at, k_major = (step * 2, True) if b_order == "k" else (step * 128, False)
                keep = T.Select(tx < 0, 1, 0) if step == 0 else 1
                if a_in == "shared":
                    T.ptx_wgmma_ss(
                        "float32", "m64n64k16", True, k_major, "fp16", "fp16", "fp32",
                        a_desc.data, step * 128, b_desc.data, b_at, c.data, 0, keep, 1, 1,
                    )  # fmt: skip
                else:
                    T.ptx_wgmma_rs(
                        "float32", "m64n64k16", k_major, "fp16", "fp16", "fp32",
                        a, step * 8, b_desc, b_at, c, 0, keep, 1, 1,
                    )  # fmt: skip
            T.warpgroup_commit_batch()
            if waits:
                T.warpgroup_wait(0)
            for i in T.serial(32):
                C[tx // 32 * 16 + tx % 32 // 4 + i // 2 % 2 * 8, i // 4 * 8 + tx % 4 * 2 + i % 2] = c[i]

    return kernel


@pytest.mark.parametrize("a_in", ["shared", "registers"])
@pytest.mark.parametrize("b_order", ["k", "n"])
def test_a_warpgroup_multiplies(run: Any, a_in: str, b_order: str) -> None:
    a, b = numbers((64, 64)), numbers((64, 64))[::-1].copy()
    *_rest, found = run(warpgroup_product(a_in=a_in, b_order=b_order), a, b, poisoned((64, 64)))
    assert (found == a.astype("float32") @ b.astype("float32")).all()


@pytest.mark.emulate
def test_a_missing_wait_is_found() -> None:
    a, b, c = (aligned(each) for each in (numbers((64, 64)), numbers((64, 64)), poisoned((64, 64))))
    program = warpgroup_product(a_in="shared", b_order="n", waits=False)
    with pytest.raises(EmulatedUnwrittenError, match=r"reads c\[.*not waited for"):
        tl.compile(program, target=SM_90, execution="emulate", pass_configs=CHECKED)(a, b, c)


def test_results_are_pinned_behind_the_wait(build: Any) -> None:
    source = build(warpgroup_product(a_in="shared", b_order="n"), ("sm_90",))
    body = source[source.index("__global__") :]
    waited = body.index("tile_wgmma_wait_0()")
    assert body.index("tile_pin_f32(&c[0])", waited) < body.index("c[i", waited)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_it_compiles(build: Any, arch: str) -> None:
    source = build(warp_product(48, "float16"), (arch,))
    assert "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32" in source
    assert "ldmatrix.sync.aligned.m8n8.x4.shared.b16" in source


@pytest.mark.emulate
def test_a_barrier_stands_before_what_a_descriptor_reads() -> None:
    """Tiles that threads write are waited for, though the product names a descriptor only."""

    @T.prim_func
    def kernel(A: T.Tensor((4, 64, 16), "float16"), C: T.Tensor((4, 64, 8), "float32")):
        with T.Kernel(1, threads=128) as _bx:
            a_tile = T.alloc_shared((2, 64, 8), "float16")
            b_tile = T.alloc_shared((2, 8, 8), "float16")
            c = T.alloc_local((4,), "float32")
            a_desc = T.alloc_wgmma_desc()
            b_desc = T.alloc_wgmma_desc()
            tx = T.get_thread_binding(0)
            T.initialize_wgmma_descriptor(a_desc, a_tile, 0, 64, 8)
            T.initialize_wgmma_descriptor(b_desc, b_tile, 0, 8, 8)
            for step in T.serial(4):
                for i, j in T.Parallel(64, 16):
                    a_tile[j // 8, i, j % 8] = A[step, i, j]
                for i, j in T.Parallel(8, 16):
                    b_tile[j // 8, i, j % 8] = T.if_then_else(i == j, 1.0, 0.0)
                T.fence_proxy_async()
                T.warpgroup_arrive()
                T.ptx_wgmma_ss(
                    "float32", "m64n8k16", True, True, "fp16", "fp16", "fp32", a_desc, 0, b_desc, 0, c, 0, 0, 1, 1
                )
                T.warpgroup_commit_batch()
                T.warpgroup_wait(0)
                for i in T.serial(4):
                    C[step, tx // 32 * 16 + tx % 32 // 4 + i // 2 * 8, tx % 4 * 2 + i % 2] = c[i]

    a, c = aligned(numbers((4, 64, 16))), aligned(poisoned((4, 64, 8)))
    tl.compile(kernel, target=SM_90, execution="emulate", pass_configs=CHECKED)(a, c)
    assert (c == a[:, :, :8]).all()


@pytest.mark.parametrize(
    ("arch", "program", "names"),
    [
        ("sm_75", warp_product(16, "float16"), "mma m16n8k16_f32_f16_f16"),
        ("sm_80", warpgroup_product(a_in="shared", b_order="n"), "wgmma m64n64k16"),
        ("sm_100", warpgroup_product(a_in="registers", b_order="n"), "wgmma m64n64k16"),
    ],
)
def test_an_architecture_without_the_instruction_is_refused(arch: str, program: Any, names: str) -> None:
    with pytest.raises(UnsupportedOnTargetError, match=f"{arch}.*has no {names}") as raised:
        tl.compile(program, target={"kind": "cuda", "arch": arch})
    assert raised.value.span is not None


def test_targets_without_threads_and_the_interpreter_say_so() -> None:
    with pytest.raises(ThreadIndexError):
        tl.compile(warp_product(16, "float16"), target="cpu")
    with pytest.raises(NoReferenceMeaningError, match="cuda.ldmatrix"):
        tl.compile(warp_product(16, "float16"), target="interpret")


REFUSED = [
    (OpArgumentError, "m16n8k8", lambda x: T.ptx_mma("float32", "m16n8k8", "row", "col", "int8", "int8", "fp32", *x)),
    (
        OpArgumentError,
        "A by 'col'",
        lambda x: T.ptx_mma("float32", "m16n8k16", "col", "col", "fp16", "fp16", "fp32", *x),
    ),
    (
        OpArgumentError,
        "saturate",
        lambda x: T.ptx_mma("float32", "m16n8k16", "row", "col", "fp16", "fp16", "fp32", *x, True),
    ),
    (
        OpArgumentError,
        "operator",
        lambda x: T.ptx_mma("f", "m16n8k16", "row", "col", "fp16", "fp16", "fp32", *x, 0, "xor"),
    ),
    (OpArgumentError, "8 elements of x from 1 on, of 8", lambda x: T.ptx_ldmatrix(False, 4, x.tile, x.a[1])),
    (OpArgumentError, "3 matrices", lambda x: T.ptx_ldmatrix(False, 3, x.tile, x.a)),
    (OpArgumentError, "shared tile", lambda x: T.ptx_ldmatrix(False, 4, x.a, x.a)),
    (OpArgumentError, "is local.fragment memory", lambda x: T.ptx_ldmatrix(False, 4, x.tile, x.fragment)),
    (OpArgumentError, "32 × 8", lambda x: T.mma_store("float32", 32, 8, x.tile, x.c, 0, 16)),
    (OpArgumentError, "are 16 elements apart, not 8", lambda x: T.mma_store("float32", 16, 16, x.tile, x.c, 0, 8)),
    (OpDTypeError, "not float16", lambda x: T.mma_fill("float16", 8, x.c, 0)),
    (OpArgumentError, "9 elements", lambda x: T.mma_fill("float32", 9, x.c, 0)),
    (AllocationError, "kind='cute'", lambda x: T.alloc_descriptor("cute")),
    (OpArgumentError, "layout_type_=4", lambda x: T.initialize_wgmma_descriptor(x.desc, x.tile, 4, 0, 64)),
    (OpArgumentError, "a distance of -1", lambda x: T.initialize_wgmma_descriptor(x.desc, x.tile, 1, -1, 64)),
    (OpArgumentError, "is no descriptor", lambda x: T.increase_descriptor_offset(x.a, 16)),
]


class Arrays(list[Any]):
    """Operands of `T.ptx_mma` in order, and what else the refused calls name."""

    tile: Any
    fragment: Any
    a: Any
    c: Any
    desc: Any


@pytest.mark.parametrize(("kind", "names", "call"), REFUSED)
def test_arguments_are_checked(kind: type[Exception], names: str, call: Any) -> None:
    with pytest.raises(kind, match=names):

        @T.prim_func
        def kernel(A: T.Tensor((8,), "float32")):
            with T.Kernel(1, threads=128) as _bx:
                tile = T.alloc_shared((16, 16), "float16")
                fragment = T.alloc_fragment((16, 16), "float16")
                x = T.alloc_local((8,), "float16")
                y = T.alloc_local((4,), "float16")
                c = T.alloc_local((8,), "float32")
                desc = T.alloc_wgmma_desc()
                operands = Arrays([x, 0, y, 0, c, 0])
                fill(operands, tile=tile, fragment=fragment, a=x, c=c, desc=desc)
                call(operands)


def fill(operands: Arrays, **named: Any) -> None:
    """Attributes by name; an assignment in a kernel would be a store."""
    for name, value in named.items():
        setattr(operands, name, value)
