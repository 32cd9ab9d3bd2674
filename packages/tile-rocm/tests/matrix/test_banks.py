"""Shared operands are read and written without bank conflicts: the addresses of the lanes, tabulated from the code.

The lanes that are served at once: neighbours, and for reads of 16 bytes also the groups that ROCm's documentation of
CK-Tile names ("LDS bank conflicts").
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from tvm import ir
from tvm.ir.prim import expr as E
from tvm.tirx import stmt as S

import tile_core.language as T
from tile_core.ir import launch as launch_ir
from tile_core.ir import regions, visit
from tile_core.jit.artifact import CompileRequest
from tile_core.layouts.tabulate import evaluate
from tile_core.passes.lower import lower
from tile_core.plugins.manager import backend
from tile_core.targets import select_target

BANKS, BANK_BYTES = 32, 4
NEIGHBOURS = {16: tuple(tuple(range(first, first + 8)) for first in range(0, 32, 8)), 8: (tuple(range(16)),)}
OF_READS = tuple((*range(first, first + 4), *range(other, other + 4)) for first, other in ((0, 20), (4, 16), (8, 28)))


def gemm(dtype: str, depth: int, a_trans: bool, b_trans: bool) -> Any:
    @T.prim_func
    def kernel(A: T.Tensor((1024, 1024), dtype), B: T.Tensor((1024, 1024), dtype), C: T.Tensor((128, 128), "float32")):
        with T.Kernel(1, threads=256) as _:
            a = T.alloc_shared((depth, 128) if a_trans else (128, depth), dtype)
            b = T.alloc_shared((128, depth) if b_trans else (depth, 128), dtype)
            c = T.alloc_fragment((128, 128), "float32")
            T.clear(c)
            T.copy(A[0, 0], a)
            T.copy(B[0, 0], b)
            T.gemm(a, b, c, a_trans, b_trans)
            T.copy(c, C)

    return kernel


def accesses(func: Any, arch: str) -> Iterator[tuple[str, int, list[int]]]:
    """`read` or `write`, bytes of a lane, and the address of each lane, of every vector between tile and thread."""
    request = CompileRequest(select_target({"kind": "rocm", "arch": arch}))
    lowered, _report = lower(func, request, backend("rocm"))
    launch = launch_ir.from_stmt(next(iter(launch_ir.launches(lowered.body))))
    values: dict[ir.Var, Any] = dict.fromkeys(visit.collect(launch.body, ir.Var), 0)
    values[launch.thread_vars[0]] = np.arange(64)
    for bind in visit.collect(launch.body, S.Bind):
        if not visit.collect(bind.value, ir.Call):
            values[bind.var] = evaluate(bind.value, values)
    for store in visit.collect(launch.body, S.BufferStore):
        load = store.value
        if not isinstance(load, ir.TensorLoad):
            continue
        for kind, buffer, indices in (("read", load.source, load.indices), ("write", store.buffer, store.indices)):
            if regions.scope(buffer) not in regions.SHARED or not isinstance(indices[-1], E.Ramp):
                continue
            size = int(buffer.dtype.bits) // 8
            yield kind, int(indices[-1].lanes) * size, list(evaluate(indices[-1].base, values) * size)


def ways(addresses: list[int], width: int) -> int:
    """How many different words one bank is asked for at most."""
    words = {address // BANK_BYTES + part for address in addresses for part in range(width // BANK_BYTES)}
    banks = [word % BANKS for word in words]
    return max(banks.count(bank) for bank in banks)


@pytest.mark.parametrize(
    ("arch", "dtype", "depth", "a_trans", "b_trans"),
    [
        ("gfx942", "float16", 32, False, True),
        ("gfx942", "float16", 64, False, False),
        ("gfx942", "bfloat16", 32, True, False),
        ("gfx942", "float32", 32, False, False),
        ("gfx942", "float32", 32, False, True),
        ("gfx950", "float16", 64, False, True),
        ("gfx1100", "float16", 32, False, True),
        ("gfx1201", "float16", 64, False, True),
    ],
)
def test_no_bank_is_asked_for_two_words(arch: str, dtype: str, depth: int, a_trans: bool, b_trans: bool) -> None:
    found = list(accesses(gemm(dtype, depth, a_trans, b_trans), arch))
    assert {kind for kind, _width, _addresses in found} == {"read", "write"}
    for kind, width, addresses in found:
        assert width >= 8
        groups = NEIGHBOURS[width] + (OF_READS if kind == "read" and width == 16 else ())
        for lanes in groups:
            assert ways([addresses[lane] for lane in lanes], width) == 1, (kind, width, lanes, addresses)
