"""Atomics that are atomic across cores, printing, and assertions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import tile_core as tl
import tile_core.language as T
from tile_core.errors import DataTypeUnsupportedError, DeviceAssertError

DTYPES = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
FLOATS = ["float16", "bfloat16", "float32", "float64"]
SIZE, BINS = 64 * 500 + 17, 7


def binned(dtype: str, update: Any) -> Any:
    @T.prim_func
    def kernel(A: T.Tensor((SIZE,), dtype), Out: T.Tensor((BINS,), dtype)):
        with T.Kernel(T.ceildiv(SIZE, 64)) as bx:
            for i in T.Parallel(64):
                if bx * 64 + i < SIZE:
                    update(Out[(bx * 64 + i) % BINS], A[bx * 64 + i])

    return tl.compile(kernel, target="cpu")


def bins(values: Any, combine: Any) -> list[float]:
    return [combine(values[at::BINS]).item() for at in range(BINS)]


@pytest.mark.parametrize("dtype", [*DTYPES, *FLOATS])
def test_add(dtype: str) -> None:
    kind = getattr(torch, dtype)
    a = torch.randint(0, 3, (SIZE,)).to(kind)
    if dtype in ("float16", "bfloat16"):
        a = (torch.arange(SIZE) % 137 == 0).to(kind)  # sums that these dtypes hold exactly
    out = torch.zeros(BINS, dtype=kind)
    binned(dtype, T.atomic_add)(a, out)
    expected = torch.tensor(bins(a.double().numpy(), np.sum)).to(torch.int64)
    assert torch.equal(out, expected.to(kind)), (out, expected)


@pytest.mark.parametrize("dtype", [*DTYPES, *FLOATS])
@pytest.mark.parametrize("name", ["max", "min"])
def test_extremes(dtype: str, name: str) -> None:
    kind = getattr(torch, dtype)
    a = torch.randint(0, 120, (SIZE,)).to(kind)
    if dtype not in DTYPES or dtype.startswith("int"):
        a = a - 60
    start = a[:BINS].clone()
    out = start.clone()
    binned(dtype, getattr(T, f"atomic_{name}"))(a, out)
    assert out.double().tolist() == bins(a.double().numpy(), getattr(np, name))


def test_extremes_propagate_nan() -> None:
    a = torch.zeros(SIZE)
    a[100] = torch.nan
    out = torch.zeros(BINS)
    binned("float32", T.atomic_max)(a, out)
    assert out.isnan().nonzero().flatten().tolist() == [100 % BINS]


def test_the_value_before() -> None:
    """Every ticket is handed out once: the read and the write are one step."""

    @T.prim_func
    def kernel(Counter: T.Tensor((1,), "int32"), Seen: T.Tensor((SIZE,), "int32")):
        with T.Kernel(T.ceildiv(SIZE, 64)) as bx:
            for i in T.serial(64):
                if bx * 64 + i < SIZE:
                    ticket = T.atomic_add(Counter[0], 1, return_prev=True)
                    T.atomic_add(Seen[ticket], 1)

    counter, seen = torch.zeros(1, dtype=torch.int32), torch.zeros(SIZE, dtype=torch.int32)
    tl.compile(kernel, target="cpu")(counter, seen)
    assert counter.item() == SIZE
    assert torch.equal(seen, torch.ones_like(seen))


def test_an_atomic_beyond_the_end_touches_nothing() -> None:
    n = T.dynamic("n")

    @T.prim_func
    def kernel(A: T.Tensor((n,), "float32")):
        with T.Kernel(4):
            for i in T.Parallel(64):
                T.atomic_add(A[i], 1.0)

    whole = torch.zeros(64)
    tl.compile(kernel, target="cpu")(whole[:41])
    assert whole.tolist() == [4.0] * 41 + [0.0] * 23


def test_load_and_store() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((8,), "float32"), B: T.Tensor((8,), "float32")):
        with T.Kernel(1):
            for i in T.serial(8):
                T.atomic_store(B[i], T.atomic_load(A[i], memory_order="acquire") + 1.0, memory_order="release")

    a, b = torch.randn(8), torch.zeros(8)
    tl.compile(kernel, target="cpu")(a, b)
    assert torch.equal(b, a + 1)


def test_a_dtype_without_atomics() -> None:
    with pytest.raises(DataTypeUnsupportedError, match="float8_e4m3fn"):
        binned("float8_e4m3fn", T.atomic_add)


def test_printing_changes_no_result(capsys: pytest.CaptureFixture[str]) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((4,), "float32")):
        with T.Kernel(1):
            tile = T.alloc_shared((2, 2), "bfloat16")
            for i in T.serial(4):
                A[i] = A[i] * 2.0
            for i, j in T.Parallel(2, 2):
                tile[i, j] = A[i * 2 + j]
            T.print(A[1], msg="second")
            T.print(tile)
            T.print(msg="done")

    a = torch.tensor([0.5, 1.0, 1.5, 2.0])
    tl.compile(kernel, target="cpu")(a)
    assert a.tolist() == [1.0, 2.0, 3.0, 4.0]
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "second: A = 2.0"
    assert lines[1:5] == [f"tile[{i}, {j}] = {float(i * 2 + j + 1)}" for i in range(2) for j in range(2)]
    assert lines[5] == "done"


def test_an_assertion_in_any_block_is_an_error_with_its_message_and_line() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((6400,), "int32")):
        with T.Kernel(100) as bx:
            for i in T.serial(64):
                T.device_assert(A[bx * 64 + i] < 100, "too large")
                T.device_assert(A[bx * 64 + i] >= 0, "negative")

    run = tl.compile(kernel, target="cpu")
    a = torch.zeros(6400, dtype=torch.int32)
    run(a)
    for value, message in ((100, "too large"), (-1, "negative")):
        a[5000] = value
        with pytest.raises(DeviceAssertError, match=rf"{message}\n.*test_lower_intrinsics.py:\d+"):
            run(a)
    a[5000] = 0
    run(a)
