"""Every `mma` of the table: its result in the emulator, and that the printed form compiles."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tile_core.testing.matrices import assert_same, from_registers, product, random, to_registers
from tile_core.testing.thread_program import ThreadProgram
from tile_cuda.instructions import address_of, mma, shapes
from tile_cuda.instructions.shapes import MatrixInstruction

ALL = [instruction for instruction in shapes.TABLE if instruction.family == "mma"]
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


@pytest.mark.emulate
@pytest.mark.parametrize("types", GROUPS, ids="_".join)
def test_results(types: tuple[str, str, str], emulate: Callable[..., None]) -> None:
    chosen = [instruction for instruction in ALL if instruction.types == types]
    is_float = not chosen[0].a.startswith(("int", "uint"))
    cases = [(i, *program(i, special)) for i in chosen for special in ((False, True) if is_float else (False,))]
    emulate(*(made for _i, made, _words, _expected in cases))
    for instruction, _made, words, expected in cases:
        assert_same(from_registers(words, instruction.d_layout, instruction.d), expected)


@pytest.mark.compile
@pytest.mark.parametrize("capability", [75, 80, 89, 90])
def test_the_printed_form_compiles(capability: int, assemble: Callable[..., str]) -> None:
    chosen = [i for i in ALL if i.first == capability]
    report = assemble(f"sm_{capability}", *(program(i, False)[0] for i in chosen))
    assert "warning" not in report
    assert report.count("0 bytes spill stores, 0 bytes spill loads") == len(chosen)
