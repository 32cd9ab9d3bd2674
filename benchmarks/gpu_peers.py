"""What `gpu.py` measures our kernels against: Triton kernels, written plainly.

torch and Inductor need no code of their own: `gpu.py` calls them.
"""

# Triton reads the annotations of its kernels as values, so they are not strings here.

from typing import Any

import torch
import triton
import triton.language as tlang

LARGEST_E4M3 = tlang.constexpr(448.0)


@triton.jit
def _add(a, b, c, n, BLOCK: tlang.constexpr):
    at = tlang.program_id(0).to(tlang.int64) * BLOCK + tlang.arange(0, BLOCK)
    inside = at < n
    tlang.store(c + at, tlang.load(a + at, mask=inside) + tlang.load(b + at, mask=inside), mask=inside)


@triton.jit
def _softmax(x, y, n, BLOCK: tlang.constexpr):
    at = tlang.arange(0, BLOCK)
    inside, start = at < n, tlang.program_id(0).to(tlang.int64) * n
    row = tlang.load(x + start + at, mask=inside, other=-float("inf")).to(tlang.float32)
    row = tlang.exp(row - tlang.max(row, axis=0))
    tlang.store(y + start + at, (row / tlang.sum(row, axis=0)).to(y.dtype.element_ty), mask=inside)


@triton.jit
def _rms_norm(x, w, y, n, eps, BLOCK: tlang.constexpr):
    at = tlang.arange(0, BLOCK)
    inside, start = at < n, tlang.program_id(0).to(tlang.int64) * n
    row = tlang.load(x + start + at, mask=inside, other=0.0).to(tlang.float32)
    weight = tlang.load(w + at, mask=inside, other=0.0).to(tlang.float32)
    scale = tlang.rsqrt(tlang.sum(row * row, axis=0) / n + eps)
    tlang.store(y + start + at, (row * scale * weight).to(y.dtype.element_ty), mask=inside)


@triton.jit
def _layer_norm(x, w, b, y, n, eps, BLOCK: tlang.constexpr):
    at = tlang.arange(0, BLOCK)
    inside, start = at < n, tlang.program_id(0).to(tlang.int64) * n
    row = tlang.load(x + start + at, mask=inside, other=0.0).to(tlang.float32)
    weight = tlang.load(w + at, mask=inside, other=0.0).to(tlang.float32)
    bias = tlang.load(b + at, mask=inside, other=0.0).to(tlang.float32)
    row = tlang.where(inside, row - tlang.sum(row, axis=0) / n, 0.0)
    scale = tlang.rsqrt(tlang.sum(row * row, axis=0) / n + eps)
    tlang.store(y + start + at, (row * scale * weight + bias).to(y.dtype.element_ty), mask=inside)


@triton.jit
def _cast_per_token(x, s, y, n, BLOCK: tlang.constexpr):
    at = tlang.arange(0, BLOCK)
    inside, start = at < n, tlang.program_id(0).to(tlang.int64) * n
    row = tlang.load(x + start + at, mask=inside, other=0.0).to(tlang.float32)
    largest = tlang.maximum(tlang.max(tlang.abs(row), axis=0), 1e-4)
    tlang.store(s + tlang.program_id(0), largest / LARGEST_E4M3)
    tlang.store(y + start + at, (row * (LARGEST_E4M3 / largest)).to(y.dtype.element_ty), mask=inside)


@triton.jit
def _swiglu(g, u, y, n, BLOCK: tlang.constexpr):
    at = tlang.program_id(0).to(tlang.int64) * BLOCK + tlang.arange(0, BLOCK)
    inside = at < n
    gate = tlang.load(g + at, mask=inside).to(tlang.float32)
    up = tlang.load(u + at, mask=inside).to(tlang.float32)
    tlang.store(y + at, (gate * tlang.sigmoid(gate) * up).to(y.dtype.element_ty), mask=inside)


@triton.jit
def _transpose(x, y, m, n, TILE: tlang.constexpr):
    batch = tlang.program_id(2).to(tlang.int64) * m * n
    rows = tlang.program_id(1) * TILE + tlang.arange(0, TILE)
    columns = tlang.program_id(0) * TILE + tlang.arange(0, TILE)
    inside = (rows[:, None] < m) & (columns[None, :] < n)
    tile = tlang.load(x + batch + rows[:, None] * n + columns[None, :], mask=inside)
    turned = (columns[:, None] < n) & (rows[None, :] < m)
    tlang.store(y + batch + columns[:, None] * m + rows[None, :], tlang.trans(tile), mask=turned)


@triton.jit
def _cumsum(x, y, n, BLOCK: tlang.constexpr):
    at = tlang.arange(0, BLOCK)
    inside, start = at < n, tlang.program_id(0).to(tlang.int64) * n
    row = tlang.load(x + start + at, mask=inside, other=0.0).to(tlang.float32)
    tlang.store(y + start + at, tlang.cumsum(row, axis=0).to(y.dtype.element_ty), mask=inside)


def _row(kernel: Any, *tensors: torch.Tensor, **options: Any) -> None:
    """Launch a kernel with one program a row of the first tensor."""
    rows, n = tensors[0].shape
    block = triton.next_power_of_2(n)
    warps = min(16, max(4, block // 512))
    kernel[(rows,)](*tensors, n, *options.values(), BLOCK=block, num_warps=warps)


def add(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> None:
    """c = a + b, any shape."""
    n = a.numel()
    _add[(triton.cdiv(n, 1024),)](a, b, c, n, BLOCK=1024)


def softmax(x: torch.Tensor, y: torch.Tensor) -> None:
    """Softmax of rows."""
    _row(_softmax, x, y)


def rms_norm(x: torch.Tensor, w: torch.Tensor, y: torch.Tensor) -> None:
    """RMSNorm of rows."""
    _row(_rms_norm, x, w, y, eps=1e-6)


def layer_norm(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor, y: torch.Tensor) -> None:
    """LayerNorm of rows."""
    _row(_layer_norm, x, w, b, y, eps=1e-5)


def cast_per_token(x: torch.Tensor, s: torch.Tensor, y: torch.Tensor) -> None:
    """Rows as float8_e4m3fn with a scale each."""
    _row(_cast_per_token, x, s, y)


def swiglu(g: torch.Tensor, u: torch.Tensor, y: torch.Tensor) -> None:
    """gate * sigmoid(gate) * up."""
    n = g.numel()
    _swiglu[(triton.cdiv(n, 1024),)](g, u, y, n, BLOCK=1024)


def transpose(x: torch.Tensor, y: torch.Tensor) -> None:
    """The last two axes exchanged."""
    b, m, n = x.shape
    _transpose[(triton.cdiv(n, 64), triton.cdiv(m, 64), b)](x, y, m, n, TILE=64)


def cumsum(x: torch.Tensor, y: torch.Tensor) -> None:
    """Running sums along rows."""
    _row(_cumsum, x, y)
