"""Halves of whole words of bytes become integers of eight bits by instructions; anything else stays as it was."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tvm import tirx
from tvm.ir.prim import expr as E
from tvm.tirx import stmt as S

from tile_core.ir import nibbles, visit
from tile_cuda.instructions.base import address_of
from tile_cuda.instructions.nibbles import widen_halves
from tile_cuda.passes.widen_nibbles import WidenNibbles


def lanes(count: int, half: int, *, is_signed: bool, start: int = 0, kind: Any = S.ForKind.UNROLLED) -> S.Stmt:
    """A loop of the form that fills a tile of eight bits from one of four."""
    lane = tirx.Var("lane", "int32")
    packed = tirx.decl_buffer((64,), "uint8", "packed", scope="local")
    out = tirx.decl_buffer((64,), "int8", "out", scope="local")
    byte = tirx.BufferLoad(packed, [lane + start])
    value = E.Cast("int8", nibbles.nibble(byte, E.IntImm("int32", half), is_signed=is_signed))
    return S.For(lane, E.IntImm("int32", 0), E.IntImm("int32", count), kind, S.BufferStore(out, value, [lane]))


def widened(stmt: S.Stmt) -> list[dict[str, int]]:
    """The attributes of the instructions that a body becomes."""
    func = WidenNibbles()(tirx.PrimFunc([], stmt), None)
    calls = [call for call in visit.collect(func.body, S.Evaluate) if str(call.value.op.name) == "cuda.widen_halves"]
    assert bool(calls) != bool(visit.collect(func.body, S.For))
    return [{name: int(call.value.attrs[name]) for name in ("bytes", "high", "signed")} for call in calls]


@pytest.mark.parametrize("half", [0, 1])
@pytest.mark.parametrize("is_signed", [False, True])
def test_whole_words_are_widened(half: int, is_signed: bool) -> None:
    for start in (0, 4):
        found = widened(lanes(8, half, is_signed=is_signed, start=start))
        assert found == [{"bytes": 8, "high": half, "signed": int(is_signed)}]


@pytest.mark.parametrize(
    "form",
    [{"count": 6}, {"count": 8, "start": 2}, {"count": 8, "kind": S.ForKind.SERIAL}],
)
def test_anything_else_stays(form: dict[str, Any]) -> None:
    assert widened(lanes(half=0, is_signed=True, **form)) == []


def test_what_is_no_whole_word() -> None:
    place = address_of(tirx.decl_buffer((8,), "uint8", scope="local"), 0)
    with pytest.raises(ValueError, match="6 bytes are not whole words"):
        widen_halves(place, place, count=6, is_high=False, is_signed=False)


@pytest.mark.emulate
@pytest.mark.parametrize("is_signed", [False, True])
def test_every_byte(is_signed: bool, agree: Any) -> None:
    """All bytes through a product with ones in turn: the emulated function against the interpreter."""
    import tile_core.language as T

    dtype = "int4" if is_signed else "uint4"

    @T.prim_func
    def kernel(A: T.Tensor((64, 64), dtype), B: T.Tensor((64, 64), dtype), C: T.Tensor((64, 64), "int32")):
        with T.Kernel(1, threads=128):
            a, b = T.alloc_shared((64, 64), dtype), T.alloc_shared((64, 64), dtype)
            c = T.alloc_fragment((64, 64), "int32")
            T.copy(A, a)
            T.copy(B, b)
            T.gemm(a, b, c, transpose_B=True, clear_accum=True)
            T.copy(c, C)

    a = np.arange(64 * 32).astype(np.uint8).view(np.int8).reshape(64, 32)
    ones = np.zeros((64, 64), np.uint8)
    np.fill_diagonal(ones, 1)
    _a, _b, c = agree(kernel, a, (ones[:, ::2] | ones[:, 1::2] << 4).view(np.int8), np.full((64, 64), 99, np.int32))
    low, high = a.view(np.uint8) & 15, a.view(np.uint8) >> 4
    codes = np.stack([low, high], axis=-1).reshape(64, 64).astype(np.int32)
    np.testing.assert_array_equal(c, (codes ^ 8) - 8 if is_signed else codes)
