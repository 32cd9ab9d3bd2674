"""Products, products with an epilogue and attention at 30 random sizes by one kernel, on tensors at any address."""

from __future__ import annotations

import math
import random

import pytest
import torch

import tile_core as tl
import tile_core.language as T

EDGES = (1, 2, 7, 31, 32, 33, 63, 64, 65, 95, 96, 97, 130, 191, 257)
TILES = {"bm": 64, "bn": 96, "bk": 64}


@pytest.mark.parametrize(
    ("dtype", "total"), [("float32", "float32"), ("bfloat16", "float32"), ("float16", "float32"), ("int8", "int32")]
)
def test_products(workloads, dtype, total):
    """Of whole numbers, with NaN in one row and infinity in one column."""
    sizes = map(T.dynamic, "MNK")
    kernel = tl.compile(workloads.gemm(*sizes, dtype, total, **TILES), target="cpu")
    choose = random.Random(dtype)
    torch.manual_seed(6)
    kind = getattr(torch, dtype)
    for _ in range(30):
        m, n, k = (choose.choice(EDGES) for _ in range(3))
        # One element in front, so that no tensor begins at an aligned address.
        a, b = (torch.randint(-100, 100, (size + 1,)).to(kind)[1:] for size in (m * k, k * n))
        a, b = a.view(m, k), b.view(k, n)
        if kind.is_floating_point:
            a[choose.randrange(m), choose.randrange(k)] = torch.nan
            b[choose.randrange(k), choose.randrange(n)] = torch.inf
        guarded = torch.full((m * n + 2,), 77).to(getattr(torch, total))
        out = guarded[1:-1].view(m, n)
        kernel(a, b, out)
        # Whole numbers below 2^24: every order of the sums is exact.
        expected = (a.double() @ b.double()).to(out.dtype)
        assert torch.equal(out.isnan(), expected.isnan()), (m, n, k)
        assert torch.equal(out.nan_to_num(), expected.nan_to_num()), (m, n, k)
        assert guarded[0] == guarded[-1] == 77


def unaligned(*shape, dtype=torch.float32):
    """Random numbers whose first element is not at an aligned address."""
    return torch.randn(math.prod(shape) + 1).to(dtype)[1:].view(shape)


def test_gelu(workloads):
    kernel = tl.compile(workloads.gemm_gelu(*map(T.dynamic, "MNK"), "float32", **TILES), target="cpu")
    choose = random.Random(7)
    torch.manual_seed(7)
    for _ in range(30):
        m, n, k = (choose.choice(EDGES) for _ in range(3))
        a, b, bias = unaligned(m, k) / math.sqrt(k), unaligned(k, n), unaligned(n)
        a[choose.randrange(m), choose.randrange(k)] = torch.nan
        guarded = torch.full((m * n + 2,), 77.0)
        out = guarded[1:-1].view(m, n)
        kernel(a, b, bias, out)
        expected = torch.nn.functional.gelu(a.double() @ b.double() + bias.double())
        torch.testing.assert_close(out.double(), expected, rtol=1e-5, atol=2e-5, equal_nan=True)
        assert guarded[0] == guarded[-1] == 77


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("dtype", "columns"), [("float32", 64), ("float32", 40), ("bfloat16", 64)])
def test_attention(workloads, dtype, columns, causal):
    heads, rows = T.dynamic("H"), T.dynamic("S")
    kernel = tl.compile(workloads.attention(heads, rows, columns, dtype, causal, bq=32, bk=32), target="cpu")
    choose = random.Random(8)
    torch.manual_seed(8)
    kind = getattr(torch, dtype)
    for _ in range(30):
        shape = (choose.choice((1, 2, 3)), choose.choice(EDGES), columns)
        q, k, v = (unaligned(*shape, dtype=kind) for _ in range(3))
        q[0, choose.randrange(shape[1]), choose.randrange(columns)] = torch.nan
        guarded = torch.full((math.prod(shape) + 2,), 77).to(kind)
        out = guarded[1:-1].view(shape)
        kernel(q, k, v, out)
        wide = (each.double() for each in (q, k, v))
        expected = torch.nn.functional.scaled_dot_product_attention(*wide, is_causal=causal)
        error = {"rtol": 2e-5, "atol": 2e-5} if dtype == "float32" else {"rtol": 2e-2, "atol": 2e-2}
        torch.testing.assert_close(out.double(), expected, equal_nan=True, **error)
        assert guarded[0] == guarded[-1] == 77
