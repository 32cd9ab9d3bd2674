"""Tensor maps: what they refuse, how they reach a kernel, and host code that chooses by `tensor_map_fits`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tvm import tirx
from tvm.ir.prim import expr as E
from tvm.tirx import stmt as S

from tile_core.errors.device import DescriptorError
from tile_core.ir.descriptors import named
from tile_core.testing import handmade as h
from tile_cuda.instructions.calls import address
from tile_cuda.instructions.mbarrier import fence_barrier_init, mbarrier_expect, mbarrier_init, mbarrier_wait
from tile_cuda.instructions.tensor_map import tensor_map, tensor_map_fits
from tile_cuda.instructions.tma import tma_load

ROWS, BOX = 8, 16


def copy_box(*, choose: bool = False, extent: int | None = None) -> Any:
    """B = the first box of A, whose rows have any stride; where A does not fit and may not, B is -1."""
    stride = tirx.Var("stride", "int64")
    a = tirx.decl_buffer((ROWS, BOX), "float16", "A", strides=[stride, E.IntImm("int64", 1)], scope="global")
    b = tirx.decl_buffer((ROWS, BOX), "float16", "B", scope="global")
    tile, full = h.shared_buffer("tile", (ROWS, BOX), "float16"), h.shared_buffer("full", (1,), "uint64")
    described = named("A_map")
    bytes_apart = stride * E.IntImm("int64", 2)
    made = tensor_map(
        address(a, 0, 0),
        [BOX, ROWS if extent is None else extent],
        [bytes_apart],
        dtype="float16",
        box=[BOX, ROWS],
        swizzle=32,
    )

    def fast(_block: Any, thread: Any) -> list[Any]:
        first = E.EQ(thread, h.int32(0))
        barrier = address(full, 0)
        copy = (mbarrier_expect(barrier, ROWS * BOX * 2), tma_load(address(tile, 0, 0), described, barrier, 0, 0))
        # The 16-byte unit of 32 bytes is exchanged in every other row of 128 bytes.
        column = E.FloorMod(thread, h.int32(BOX))
        row = E.FloorDiv(thread, h.int32(BOX))
        swizzled = tirx.bitwise_xor(column, E.FloorMod(E.FloorDiv(row, h.int32(4)), h.int32(2)) * h.int32(8))
        return [
            h.when(first, mbarrier_init(barrier, 1), fence_barrier_init()),
            h.barrier(),
            h.when(first, *copy),
            mbarrier_wait(barrier, 0),
            h.store(b, h.load(tile, row, swizzled), row, column),
        ]

    def plain(_block: Any, thread: Any) -> list[Any]:
        minus = E.FloatImm("float16", -1.0)
        return [h.store(b, minus, E.FloorDiv(thread, h.int32(BOX)), E.FloorMod(thread, h.int32(BOX)))]

    described_launch = h.do(S.Bind(described, made), h.Kernel(fast, shared=[tile, full]).launch())
    if not choose:
        return h.program([a, b], described_launch)
    fits = tensor_map_fits(address(a, 0, 0), bytes_apart)
    return h.program([a, b], S.IfThenElse(fits, described_launch, h.Kernel(plain).launch()))


def operands(width: int, first: int = 0) -> tuple[Any, Any]:
    """A view of the first columns of rows of `width`, from element `first` on, and a poisoned output."""
    whole = np.arange(ROWS * width + 16).astype("float16")
    aligned = np.empty(whole.size + 8, "float16")
    begin = (-aligned.ctypes.data % 16) // 2
    aligned = aligned[begin : begin + whole.size]
    aligned[:] = whole
    a = np.lib.stride_tricks.as_strided(aligned[first:], (ROWS, BOX), (2 * width, 2))
    return a, np.full((ROWS, BOX), np.nan, "float16")


def test_a_tensor_without_elements_is_described(run: Any) -> None:
    a, b = operands(24)
    run(copy_box(extent=0, choose=True), a, b)
    assert (b[0] == a[0]).all()
    assert (b[1:] == 0).all()


def test_a_strided_tensor_is_described_and_read(run: Any) -> None:
    a, b = operands(24)
    run(copy_box(), a, b)
    assert (a == b).all()


@pytest.mark.parametrize(("width", "first", "fits"), [(24, 0, True), (24, 8, True), (20, 0, False), (24, 4, False)])
def test_host_code_chooses_between_kernels(run: Any, width: int, first: int, fits: bool) -> None:
    a, b = operands(width, first)
    run(copy_box(choose=True), a, b)
    assert (b == (a if fits else -1)).all()


@pytest.mark.emulate
@pytest.mark.parametrize(
    ("width", "first", "why"), [(20, 0, "a stride is no multiple of 16"), (24, 4, "the address is no multiple of 16")]
)
def test_a_refusal_names_the_tensor(emulate: Any, width: int, first: int, why: str) -> None:
    a, b = operands(width, first)
    with pytest.raises(DescriptorError, match=f"A_map of kernel handmade: {why}") as raised:
        emulate(copy_box(), a, b)
    assert f"extent {ROWS}, stride {2 * width} bytes, box {ROWS}" in str(raised.value)
    assert np.isnan(b).all()


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({"box": [257, 8]}, "edges from 1 to 256"),
        ({"box": [12, 8]}, "a multiple of 16 bytes"),
        ({"box": [64, 8], "swizzle": 64}, "not swizzled in 64"),
        ({"box": [64, 8], "swizzle": 96}, "not swizzled in 96"),
        ({"box": [64]}, "1 to 5 axes"),
        ({"box": [64, 8], "dtype": "float4_e2m1fn"}, "smaller than a byte"),
    ],
)
def test_what_no_map_can_say_is_refused(arguments: dict[str, Any], why: str) -> None:
    a = tirx.decl_buffer((64, 64), "float16", "A", scope="global")
    with pytest.raises(ValueError, match=why):
        tensor_map(address(a, 0, 0), [64, 64], [128], **{"dtype": "float16", **arguments})


@pytest.mark.compile
def test_the_map_is_a_parameter_by_value(source_for: Callable[..., str]) -> None:
    source = source_for(copy_box(choose=True))
    assert "const __grid_constant__ TileTensorMap A_map" in source
    assert "cp.async.bulk.tensor.2d" in source
