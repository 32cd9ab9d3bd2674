"""Which shifts get a guard; what shifts compute is tested on every backend by `dtypes.shifts_by_any_amount`."""

from __future__ import annotations

from typing import Any

import pytest
from tvm.ir.prim import expr as E
from tvm.tirx import stmt as S

import tile_core.language as T
from tile_core.ir import visit
from tile_core.passes.base import PassContext
from tile_core.passes.define_shifts import DefineShifts


def guards(value: Any, context: PassContext) -> int:
    @T.prim_func
    def kernel(A: T.Tensor((64,), "int32"), B: T.Tensor((64,), "int32")):
        with T.Kernel(1):
            for i in T.Parallel(16):
                B[i] = value(A[i], i)

    return len(visit.collect(DefineShifts()(kernel, context).body, E.Select))


@pytest.mark.parametrize(
    "value",
    [lambda a, i: a << 3, lambda a, i: a >> 31, lambda a, i: a << i, lambda a, i: a >> i * 2, lambda a, i: a << i % 7],
    ids=["constant", "right", "loop variable", "product", "remainder"],
)
def test_an_amount_that_fits_needs_no_guard(value: Any, context: PassContext) -> None:
    assert guards(value, context) == 0


@pytest.mark.parametrize(
    "value",
    [lambda a, i: a << a, lambda a, i: a >> a, lambda a, i: a << i * 3, lambda a, i: a << i - 1],
    ids=["data", "right by data", "too large", "negative"],
)
def test_any_other_amount_is_guarded(value: Any, context: PassContext) -> None:
    assert guards(value, context) == 1


def test_the_amount_is_evaluated_once(context: PassContext) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((8,), "uint32"), B: T.Tensor((8,), "uint32")):
        with T.Kernel(1):
            for i in T.Parallel(8):
                B[i] = A[i] >> A[i] * A[i]

    (store,) = visit.collect(DefineShifts()(kernel, context).body, S.BufferStore)
    assert len(visit.collect(store.value, E.Mul)) == 1
