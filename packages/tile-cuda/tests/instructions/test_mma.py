"""Every `mma` of the table: its result in the emulator, and that the printed form compiles."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tvm import tirx
from tvm.ir.prim import expr as E
from tvm.tirx import stmt as S

from tile_core.testing.matrices import assert_same, from_registers, product, random, to_registers
from tile_core.testing.thread_program import ThreadProgram
from tile_cuda.instructions import address_of, hold, mma, round_tf32, shapes
from tile_cuda.instructions.shapes import MatrixInstruction

ALL = [instruction for instruction in shapes.TABLE if instruction.family == "mma" and not instruction.sparse]
GROUPS = sorted({instruction.types for instruction in ALL})


def program(instruction: MatrixInstruction, special: bool) -> tuple[ThreadProgram, np.ndarray, np.ndarray]:
    """D = A × B + C: the program, the words of the result, and the expected matrix."""
    rng = np.random.default_rng(instruction.k)
    a = random((instruction.m, instruction.k), instruction.a, rng, special)
    b = random((instruction.k, instruction.n), instruction.b, rng)
    c = random((instruction.m, instruction.n), instruction.d, rng)
    layouts = (instruction.d_layout, instruction.a_layout, instruction.b_layout)
    made = ThreadProgram(32)
    held = []
    for name, matrix, layout in zip("dab", (c, a, b), layouts, strict=True):
        assert layout is not None
        held.append(made.registers(to_registers(matrix, layout, getattr(instruction, name)), name))
    made.add(mma(*(address_of(array, 0) for array in held), instruction=instruction))
    words = int(held[0].shape[0])
    return made, made.result(held[0], words), product(a, b, c, instruction.d)


@pytest.mark.parametrize("types", GROUPS, ids="_".join)
def test_results(types: tuple[str, str, str], execute: Any) -> None:
    chosen = [instruction for instruction in ALL if instruction.types == types and execute.has(instruction)]
    is_float = types[1] not in ("s8", "u8", "s4", "u4")
    cases = [(i, *program(i, special)) for i in chosen for special in ((False, True) if is_float else (False,))]
    execute(*(made for _i, made, _words, _expected in cases))
    for instruction, _made, words, expected in cases:
        assert_same(from_registers(words, instruction.d_layout, instruction.d), expected)


@pytest.mark.compile
@pytest.mark.parametrize("capability", [75, 80, 89, 90, 120])
def test_the_printed_form_compiles(capability: int, assemble: Callable[..., str]) -> None:
    chosen = [i for i in ALL if i.first == capability]
    report = assemble(f"sm_{capability}{'a' * (capability >= 90)}", *(program(i, False)[0] for i in chosen))
    assert "warning" not in report
    assert report.count("0 bytes spill stores, 0 bytes spill loads") == len(chosen)


def rounding() -> tuple[ThreadProgram, np.ndarray, np.ndarray]:
    """Every lane rounds one value."""
    low = np.array([0, 1, 0xFFF, 0x1000, 0x1001, 0x1FFF, 0x2FFF, 0x3000], np.uint32)
    high = np.array([0x3F800000, 0x80000000, 0x7F7FE000, 0xC2F00000], np.uint32)
    values = (high[:, None] | low).reshape(-1)
    values[-3:] = (0x7F800000, 0xFF800000, 0x7FC01234)
    made = ThreadProgram(32)
    source, out = made.parameter(values), np.zeros(32, np.uint32)
    value = tirx.reinterpret("float32", tirx.BufferLoad(source, [made.thread]))
    rounded = tirx.reinterpret("uint32", round_tf32(value))
    made.add(S.BufferStore(made.parameter(out), rounded, [made.thread]))
    return made, out, values


def test_rounding_to_tf32(execute: Any) -> None:
    made, out, values = rounding()
    execute(made)
    halves_away = (values.astype(np.uint64) + 0x1000 & ~np.uint64(0x1FFF)).astype(np.uint32)
    expected = np.where(values >> 23 & 0xFF == 0xFF, values & ~np.uint32(0x1FFF), halves_away)
    np.testing.assert_array_equal(out, expected)
    assert out[2] == 0x3F800000 and out[3] == 0x3F802000


@pytest.mark.compile
def test_rounding_and_holding_compile(assemble: Callable[..., str]) -> None:
    made, _out, _values = rounding()
    made.add(hold(E.FloatImm("float32", 1.0)))
    assert "warning" not in assemble("sm_80", made)
