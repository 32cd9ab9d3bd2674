"""What the copy engine adds to a tensor, or stores there, is read under no other name of it before it has arrived."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import tile_core as tl
import tile_core.language as T

TARGET = {"kind": "cuda", "arch": "sm_90"}
BY_ENGINE = {"elements": "tile_bulk_reduce_add(", "region": "tile_tma_reduce_add", "copy": "tile_tma_store_2d("}
SHAPE, COUNT = (4, 64, 8), 2048


def same(tensor: Any) -> Any:
    """The tensor itself."""
    return tensor


def flat(tensor: Any) -> Any:
    """A view of a tensor."""
    return T.reshape(tensor, (COUNT,))


def pointed(address: Any) -> Any:
    """A tensor at an address."""
    return T.make_tensor(address, (COUNT,), "float32")


NAMES: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "view": (same, flat),
    "view of a view": (same, lambda tensor: flat(T.reshape(tensor, (2, COUNT // 2)))),
    "view outside": (flat, same),
    "address": (same, lambda tensor: pointed(T.address_of(tensor))),
    "address outside": (T.address_of, pointed),
}
"""What is made of the tensor before the launch, and of that in it."""


def product(form: str, name: str | None) -> Any:
    """C += A @ B, or C = A @ B, in strips of eight columns for single elements; D is C, read under another name."""
    before, within = (same, same) if name is None else NAMES[name]

    @T.prim_func
    def program(
        A: T.Tensor((64, 64), "float16"),
        B: T.Tensor((64, 32), "float16"),
        C: T.Tensor(SHAPE if form == "elements" else (64, 32), "float32"),
        D: T.Tensor((COUNT,), "float32"),
    ):
        found = before(C)
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((64, 32), "float16")
            b = T.alloc_shared((32, 32), "float16")
            c = T.alloc_fragment((64, 32), "float32")
            other = within(found)
            T.clear(c)
            for k in T.Pipelined(2, num_stages=2):
                T.copy(A[0, k * 32], a)
                T.copy(B[k * 32, 0], b)
                T.gemm(a, b, c, clear_accum=form != "copy")
                if form == "elements":
                    for i, j in T.Parallel(64, 32):
                        T.atomic_add(C[j // 8, i, j % 8], c[i, j])
                elif form == "region":
                    T.atomic_add(C[0:64, 0:32], c)
            if form == "copy":
                T.copy(c, C)
            T.sync_threads()
            if name is not None:
                for i in T.Parallel(COUNT):
                    D[i] = other[i]

    return program


@pytest.mark.emulate
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("form", BY_ENGINE)
def test_what_is_read_under_another_name(form: str, name: str) -> None:
    generator = np.random.default_rng(11)
    a = generator.integers(-3, 4, (64, 64)).astype("float16")
    b = generator.integers(-3, 4, (64, 32)).astype("float16")
    expected = a.astype("float32") @ b.astype("float32")
    if form == "elements":
        expected = expected.reshape(64, 4, 8).transpose(1, 0, 2)
    c, d = torch.zeros(expected.shape), torch.full((COUNT,), float("nan"))
    kernel = tl.compile(
        product(form, name), target=TARGET, execution="emulate", pass_configs={"tile.emulate_check": True}
    )
    assert BY_ENGINE[form] not in kernel.get_kernel_source()
    kernel(torch.from_numpy(a), torch.from_numpy(b), c, d)
    assert np.array_equal(c.numpy(), expected)
    assert np.array_equal(d.numpy(), expected.ravel())


@pytest.mark.compile
@pytest.mark.parametrize("form", BY_ENGINE)
def test_the_engine_has_a_tensor_without_other_names(form: str) -> None:
    assert BY_ENGINE[form] in tl.compile(product(form, None), target=TARGET).get_kernel_source()


@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
@pytest.mark.parametrize("outside", [False, True])
def test_a_barrier_stands_between_a_tensor_and_its_view(arch, outside):
    @T.prim_func
    def program(C: T.Tensor((256,), "float32"), D: T.Tensor((256,), "float32")):
        if outside:
            view = T.reshape(C, (16, 16))
        with T.Kernel(1, threads=256):
            if not outside:
                view = T.reshape(C, (16, 16))
            for i in T.Parallel(256):
                C[i] = T.float32(i)
            for i in T.Parallel(256):
                D[i] = view[(255 - i) // 16, (255 - i) % 16]

    kernel = tl.compile(program, target={"kind": "cuda", "arch": arch}, execution="emulate")
    assert kernel.report()["barriers"] == 1
    c, d = torch.zeros(256), torch.full((256,), torch.nan)
    kernel(c, d)
    assert torch.equal(d, torch.arange(255.0, -1.0, -1.0))


@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
@pytest.mark.parametrize("outside", [False, True])
def test_a_tensor_written_through_a_view_is_not_read_ahead(arch, outside):
    @T.prim_func
    def program(A: T.Tensor((64, 64), "float16"), B: T.Tensor((64, 32), "float16"), C: T.Tensor((64, 32), "float32")):
        if outside:
            view = T.reshape(A, (4096,))
        with T.Kernel(1, threads=128):
            if not outside:
                view = T.reshape(A, (4096,))
            a = T.alloc_shared((64, 32), "float16")
            b = T.alloc_shared((32, 32), "float16")
            c = T.alloc_fragment((64, 32), "float32")
            for i in T.Parallel(4096):
                view[i] = T.float16(1)
            T.clear(c)
            for k in T.Pipelined(2, num_stages=2):
                T.copy(A[0, k * 32], a)
                T.copy(B[k * 32, 0], b)
                T.gemm(a, b, c)
            T.copy(c, C)

    target = {"kind": "cuda", "arch": arch}
    kernel = tl.compile(program, target=target, execution="emulate", pass_configs={"tile.emulate_check": True})
    a, b, c = torch.zeros(64, 64).half(), torch.randint(-3, 4, (64, 32)).half(), torch.full((64, 32), torch.nan)
    kernel(a, b, c)
    assert torch.equal(c, torch.ones(64, 64) @ b.float())
    source = kernel.get_kernel_source()
    assert "A_map" not in source
    assert "B_map" in source or arch == "sm_80"
