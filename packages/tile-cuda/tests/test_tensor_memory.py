"""Tensor memory and its products by hand: emulated against numpy, compiled for sm_100a, and what they refuse."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tile_core as tl
import tile_cuda.language as T
from tile_core.errors.emulator import EmulatedCopyError
from tile_core.errors.ops import AllocationError, OpArgumentError
from tile_core.errors.passes import MissingLoweringError, UnsupportedOnTargetError
from tile_cuda.instructions import shapes
from tile_cuda.instructions.tcgen05 import instruction_descriptor

SM_100 = {"kind": "cuda", "arch": "sm_100"}
CHECKED = {"tile.emulate_check": True}


def descriptor(n: int, dtype: str = "float16") -> int:
    found = shapes.find("tcgen05", (128, n, 16), "float32", dtype, dtype)
    assert found is not None
    return instruction_descriptor(found, {})


def numbers(shape: tuple[int, ...]) -> np.ndarray:
    """Small whole numbers."""
    return np.random.default_rng(int(np.prod(shape))).integers(-3, 4, shape).astype("float16")


def product(n: int, k: int, *, waits: bool = True, frees: bool = False, second: bool = False) -> Any:
    """C = A Bᵀ of 128 × n in tensor memory, operands as columns of 16 bytes."""
    word = descriptor(n)

    @T.prim_func
    def kernel(A: T.Tensor((128, k), "float16"), B: T.Tensor((n, k), "float16"), C: T.Tensor((128, n), "float32")):
        with T.Kernel(1, threads=128) as _bx:
            a_tile = T.alloc_shared((k // 8, 128, 8), "float16")
            b_tile = T.alloc_shared((k // 8, n, 8), "float16")
            c_tmem = T.alloc_tmem((128, n), "float32")
            if second:
                other = T.alloc_tmem((128, n), "float32")
            c = T.alloc_fragment((128, n), "float32")
            done = T.alloc_barrier(1)
            a_desc = T.alloc_tcgen05_smem_desc()
            b_desc = T.alloc_tcgen05_smem_desc()
            tx = T.get_thread_binding(0)
            for i, j in T.Parallel(128, k):
                a_tile[j // 8, i, j % 8] = A[i, j]
            for i, j in T.Parallel(n, k):
                b_tile[j // 8, i, j % 8] = B[i, j]
            T.initialize_tcgen05_descriptor(a_desc, a_tile, 128, 8)
            T.initialize_tcgen05_descriptor(b_desc, T.access_ptr(b_tile[0, 0, 0]), n, 8)
            T.fence_proxy_async()
            T.sync_threads()
            if tx < 32:
                for step in range(k // 16):
                    T.ptx_tcgen05_mma_ss(
                        "float16", a_desc, step * 256, b_desc, step * 2 * n,
                        other if second else c_tmem.data, 0, word, step > 0, 0, 0, 0, 0,
                    )  # fmt: skip
                T.tcgen05_mma_arrive(done)
            if waits:
                T.mbarrier_wait_parity(done, 0)
            T.tcgen05_after_thread_sync()
            T.copy(other if second else c_tmem, c)
            T.tcgen05_before_thread_sync()
            if frees:
                T.deallocate_tmem(c_tmem)
            T.copy(c, C)

    return kernel


@pytest.mark.emulate
@pytest.mark.parametrize(
    ("n", "k", "options"), [(32, 16, {}), (64, 48, {}), (48, 32, {"frees": True}), (32, 32, {"second": True})]
)
def test_a_product_in_tensor_memory(n: int, k: int, options: dict[str, bool]) -> None:
    a, b, c = numbers((128, k)), numbers((n, k)), np.full((128, n), np.nan, "float32")
    tl.compile(product(n, k, **options), target=SM_100, execution="emulate", pass_configs=CHECKED)(a, b, c)
    assert (c == a.astype("float32") @ b.astype("float32").T).all()


@pytest.mark.emulate
def test_a_missing_wait_is_found() -> None:
    a, b, c = numbers((128, 16)), numbers((32, 16)), np.full((128, 32), 7, "float32")
    with pytest.raises(EmulatedCopyError, match="signals .*: nothing waits for it"):
        tl.compile(product(32, 16, waits=False), target=SM_100, execution="emulate")(a, b, c)


@pytest.mark.parametrize("options", [{}, {"frees": True}, {"second": True}])
def test_it_compiles(build: Any, options: dict[str, bool]) -> None:
    source = build(product(64, 32, **options), ("sm_100",))
    assert "tcgen05.mma.cta_group::1.kind::f16" in source
    taken, given = (
        source[source.rindex('extern "C"') :].count(f"tile_tcgen05_{name}(") for name in ("alloc", "dealloc")
    )
    assert taken == given == 1


def test_other_architectures_are_refused() -> None:
    with pytest.raises(UnsupportedOnTargetError, match="sm_90.*has no tensor memory, which c_tmem is"):
        tl.compile(product(32, 16), target={"kind": "cuda", "arch": "sm_90"})


def with_tmem(statement: Any) -> Any:
    @T.prim_func
    def kernel(A: T.Tensor((128, 32), "float32")):
        with T.Kernel(1, threads=128) as _bx:
            c = T.alloc_tmem((128, 32), "float32")
            f = T.alloc_fragment((128, 32), "float32")
            d = T.alloc_tcgen05_smem_desc()
            full = T.alloc_barrier(1)
            statement(c, f, d, full)
            T.copy(c, f)
            T.copy(f, A)

    return kernel


WORD = 0x8080010


@pytest.mark.parametrize(
    ("kind", "names", "statement"),
    [
        (AllocationError, r"shape \(129, 32\)", lambda c, f, d, b: T.alloc_tmem((129, 32), "float32")),
        (AllocationError, r"shape \(128, 513\)", lambda c, f, d, b: T.alloc_tmem((128, 513), "float32")),
        (OpArgumentError, "fragment memory", lambda c, f, d, b: T.deallocate_tmem(f)),
        (
            OpArgumentError,
            "swizzle_mode=1",
            lambda c, f, d, b: T.initialize_tcgen05_descriptor(d, T.alloc_shared((8, 8), "float16"), 1, 1, 0, False, 1),
        ),
        (OpArgumentError, "arrive_2cta", lambda c, f, d, b: T.tcgen05_mma_arrive(b, True)),
        (
            OpArgumentError,
            "describes no product",
            lambda c, f, d, b: T.ptx_tcgen05_mma_ss("float16", d, 0, d, 0, c, 0, 12345, 1, 0, 0, 0, 0),
        ),
        (
            OpArgumentError,
            "masks",
            lambda c, f, d, b: T.ptx_tcgen05_mma_ss("float16", d, 0, d, 0, c, 0, WORD, 1, 1, 0, 0, 0),
        ),
        (
            OpArgumentError,
            "f is local.fragment memory",
            lambda c, f, d, b: T.ptx_tcgen05_mma_ts("float16", f, 0, d, 0, c, 0, WORD, 1, 0, 0, 0, 0),
        ),
    ],
)
def test_arguments_are_checked(kind: type[Exception], names: str, statement: Any) -> None:
    with pytest.raises(kind, match=names):
        with_tmem(statement)


def test_what_else_is_done_to_tensor_memory_is_refused() -> None:
    with pytest.raises(MissingLoweringError, match="fill of the tensor memory c"):
        tl.compile(with_tmem(lambda c, f, d, b: T.clear(c)), target=SM_100)


@pytest.mark.emulate
def test_an_instruction_descriptor_is_a_word(build: Any) -> None:
    @T.prim_func
    def kernel(O: T.Tensor((1,), "uint32")):
        with T.Kernel(1, threads=32) as _bx:
            word = T.alloc_tcgen05_instr_desc()
            word[0] = T.uint32(0x8400010)
            if T.get_thread_binding(0) == 0:
                O[0] = word[0]

    build(kernel, ("sm_100",))
    out = np.zeros((1,), "uint32")
    tl.compile(kernel, target=SM_100, execution="emulate")(out)
    assert out[0] == 0x8400010
