"""Every way in which a program touches a tensor is counted, once."""

from __future__ import annotations

from typing import Any

import pytest
from tvm import ir

import tile_core.language as T
from tile_core.ir import launch as launch_ir
from tile_core.ir import visit
from tile_core.ir.uses import Uses, uses


@T.prim_func
def inside(C: T.Tensor((64, 32), "float32"), D: T.Tensor((2048,), "float32")):
    with T.Kernel(1, threads=128):
        flat = T.reshape(C, (2048,))
        again = T.reshape(flat, (1024, 2))
        c = T.alloc_fragment((64, 32), "float32")
        T.clear(c)
        for i, j in T.Parallel(64, 32):
            T.atomic_add(C[i, j], c[i, j])
        T.atomic_add(C[0:64, 0:32], c)
        C[3, 3] = C[3, 4] + C[4, 3]
        D[0] = flat[0] + again[0, 0]


@T.prim_func
def outside(C: T.Tensor((64, 32), "float32"), D: T.Tensor((2048,), "float32")):
    flat = T.reshape(C, (2048,))
    address = T.address_of(C)
    with T.Kernel(1, threads=128):
        rows = T.make_tensor(address, (64, 32), "float32")
        D[0] = flat[0] + rows[0, 0]


CASES = [
    (inside, "C", Uses(loads=2, stores=1, operands=1, addresses=1, names=1)),
    (inside, "flat", Uses(loads=1, names=2)),
    (inside, "c", Uses(loads=1, operands=2)),
    (inside, "D", Uses(stores=1)),
    (outside, "C", Uses(addresses=1, names=1)),
    (outside, "flat", Uses(loads=1, names=1)),
    (outside, "rows", Uses(loads=1, names=1)),
]


@pytest.mark.parametrize(("program", "name", "expected"), CASES)
def test_uses(program: Any, name: str, expected: Uses) -> None:
    buffer = next(var for var in visit.collect(program, ir.Var) if str(var.name) == name)
    launch = launch_ir.from_stmt(next(launch_ir.launches(program.body)))
    assert uses(buffer, launch.body, program.body) == expected


def test_a_body_alone_has_no_names_from_outside() -> None:
    launch = launch_ir.from_stmt(next(launch_ir.launches(outside.body)))
    assert uses(outside.params[0], launch.body) == Uses(addresses=1)
