"""Copies that only feed a multiplication fall away, and stay where the tile is more than such a copy."""

from __future__ import annotations

import random

import pytest
import torch
from tvm import ir

import tile_core as tl
import tile_core.language as T
from tile_core.ir import visit
from tile_core.ops.base import op_name
from tile_core.passes.base import PassContext
from tile_cpu.passes.forward_copies import ForwardCopies


def two_products(dtype="float32", change=None):
    """Out = (Q K^T) V, with `change` to what makes a copy more than a copy."""

    @T.prim_func
    def kernel(
        Q: T.Tensor((64, 32), dtype),
        K: T.Tensor((48, 32), dtype),
        V: T.Tensor((48, 32), dtype),
        Out: T.Tensor((64, 32), "float32"),
    ):
        with T.Kernel(2) as bx:
            q = T.alloc_shared((32, 32), dtype)
            k = T.alloc_shared((48, 32), dtype)
            v = T.alloc_shared((48, 32), dtype)
            s = T.alloc_fragment((32, 48), "float32")
            p = T.alloc_shared((32, 48), dtype)
            o = T.alloc_fragment((32, 32), "float32")
            T.copy(Q[bx * 32, 0], q)
            T.copy(K, k)
            T.copy(V, v)
            if change == "tile":
                for i, j in T.Parallel(48, 32):
                    v[i, j] = v[i, j] * 2
            T.gemm(q, k, s, transpose_B=True, clear_accum=True)
            T.copy(s, p)
            if change == "source":
                T.clear(s)
            T.gemm(p, v, o, clear_accum=True)
            T.copy(o, Out[bx * 32, 0])
            if change == "tensor":
                K[bx * 32, 0] = K[bx * 32, 0]

    return kernel


def tiles_multiplied(program):
    """The names of what the multiplications read after the pass."""
    func = ForwardCopies()(program, PassContext(None, None, None))
    gemms = [stmt for stmt in visit.statements(func.body) if op_name(stmt) == "tile.gemm"]
    return {str(region.source.name) for stmt in gemms for region in visit.collect(stmt, ir.TensorRegion)[:2]}


@pytest.mark.parametrize(
    ("change", "dtype", "expected"),
    [
        (None, "float32", {"q", "K", "s", "V"}),
        (None, "bfloat16", {"q", "K", "p", "V"}),
        ("tile", "float32", {"q", "K", "s", "v"}),
        ("source", "float32", {"q", "K", "p", "V"}),
        ("tensor", "float32", {"q", "k", "s", "V"}),
    ],
)
def test_what_is_multiplied(change, dtype, expected):
    program = two_products(dtype, change)
    assert tiles_multiplied(program) == expected
    q, k, v = (torch.randint(-1, 2, (rows, 32)).to(getattr(torch, dtype)) for rows in (64, 48, 48))
    out = torch.full((64, 32), float("nan"))
    tl.compile(program, target="cpu")(q, k, v, out)
    weight = 2 if change == "tile" else 1
    assert torch.equal(out, weight * (q.float() @ k.float().T @ v.float()))


def attention(workloads, S, dtype="float32"):
    """Of two heads of 32, in blocks of 32 queries and 48 keys."""
    return workloads.attention(2, S, 32, dtype, causal=False, bq=32, bk=48)


def check_attention(kernel, S, dtype):
    kind = getattr(torch, dtype)
    # One element in front, so that no tensor begins at an aligned address.
    q, k, v = (torch.randn(2 * S * 32 + 1).to(kind)[1:].view(2, S, 32) for _ in range(3))
    v[0, S // 2, 0] = torch.nan
    guarded = torch.full((2 * S * 32 + 2,), 77.0, dtype=kind)
    out = guarded[1:-1].view(2, S, 32)
    kernel(q, k, v, out)
    expected = torch.nn.functional.scaled_dot_product_attention(q.double(), k.double(), v.double())
    tolerance = {"bfloat16": 2e-2, "float32": 2e-5}[dtype]
    torch.testing.assert_close(out.double(), expected, rtol=tolerance, atol=tolerance, equal_nan=True)
    assert guarded[0] == guarded[-1] == 77


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_random_lengths(workloads, dtype):
    """One dynamic kernel: rows of K and V beyond the tensor are zeros that the mask hides."""
    kernel = tl.compile(attention(workloads, T.dynamic("S"), dtype), target="cpu")
    choose = random.Random(dtype)
    torch.manual_seed(6)
    for _ in range(30):
        check_attention(kernel, choose.choice((1, 2, 31, 32, 47, 48, 49, 97, 113, 144, 201)), dtype)


def test_packed_once_for_all_blocks_of_rows(workloads):
    kernel = tl.compile(attention(workloads, 192), target="cpu")
    assert len(kernel.report()["shared_operands"]) == 2
    check_attention(kernel, 192, "float32")


def test_one_tile_for_two_products():
    """A tile that is multiplied twice is read from its tensor twice; one that is also A stays."""

    @T.prim_func
    def program(
        X: T.Tensor((32, 32), "float32"),
        Y: T.Tensor((32, 32), "float32"),
        C: T.Tensor((2, 32, 32), "float32"),
    ):
        with T.Kernel(1):
            x = T.alloc_shared((32, 32), "float32")
            y = T.alloc_shared((32, 32), "float32")
            c = T.alloc_fragment((32, 32), "float32")
            d = T.alloc_fragment((32, 32), "float32")
            T.copy(X, x)
            T.copy(Y, y)
            T.gemm(x, y, c, clear_accum=True)
            T.gemm(x, y, d, transpose_B=True, clear_accum=True)
            T.gemm(c, x, d)
            T.copy(c, C[0, 0, 0])
            T.copy(d, C[1, 0, 0])

    assert tiles_multiplied(program) == {"x", "Y", "c"}
    x, y, c = torch.randint(-4, 5, (32, 32)).float(), torch.randint(-4, 5, (32, 32)).float(), torch.zeros(2, 32, 32)
    tl.compile(program, target="cpu")(x, y, c)
    assert torch.equal(c, torch.stack([x @ y, x @ y.T + x @ y @ x]))


@pytest.mark.parametrize("how", ["atomic", "maximum", "region", "pointer", "other"])
def test_a_tensor_that_changes_is_multiplied_as_it_was(how):
    """X is changed between its copy and the product, by its element's address too, or by the name of another tensor."""

    @T.prim_func
    def program(
        X: T.Tensor((32, 32), "float32"),
        W: T.Tensor((32, 32), "float32"),
        other: T.Tensor((32, 32), "float32"),
        Out: T.Tensor((32, 32), "float32"),
    ):
        with T.Kernel(1):
            w = T.alloc_shared((32, 32), "float32")
            x = T.alloc_shared((32, 32), "float32")
            out = T.alloc_fragment((32, 32), "float32")
            T.copy(W, w)
            T.copy(X, x)
            if how == "atomic":
                for i, j in T.Parallel(32, 32):
                    T.atomic_add(X[i, j], 1000.0)
            elif how == "maximum":
                for i, j in T.Parallel(32, 32):
                    T.atomic_max(X[i, j], 1000.0)
            elif how == "region":
                T.atomic_add(X, w)
            elif how == "pointer":
                T.call_extern("void", "memset", T.address_of(X[0, 0]), 0, 4096)
            else:
                T.clear(other)
            T.gemm(w, x, out, clear_accum=True)
            T.copy(out, Out)

    x, w, out = torch.randint(-4, 5, (32, 32)).float(), torch.randint(-4, 5, (32, 32)).float(), torch.zeros(32, 32)
    expected = w @ x
    tl.compile(program, target="cpu")(x, w, x if how == "other" else torch.zeros(32, 32), out)
    assert torch.equal(out, expected)
    assert not torch.equal(w @ x, expected)
