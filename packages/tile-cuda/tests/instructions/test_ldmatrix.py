"""`ldmatrix` and `stmatrix`: which lane gets what, in the emulator with checks on, and the printed forms compile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tvm import tirx

from tile_core.testing.thread_program import ThreadProgram
from tile_cuda.instructions import address_of, ldmatrix, shapes, stmatrix

FORMS = [(count, trans) for count in (1, 2, 4) for trans in (False, True)]
ROW_WORDS = 4


def rows(program: ThreadProgram, count: int) -> Any:
    """The word at which the row begins that a lane gives; an index that is out of bounds for a lane that gives none."""
    return tirx.Select(program.thread < 8 * count, program.thread * ROW_WORDS, 1 << 20)


def matrices(count: int) -> np.ndarray:
    return np.arange(1, 64 * count + 1, dtype=np.uint16).reshape(count, 8, 8)


def registers(values: np.ndarray, trans: bool) -> np.ndarray:
    """The 16-bit elements of each lane."""
    layout = shapes.matrix(trans)
    out = np.empty((32, 2 * len(values)), np.uint16)
    for lane in range(32):
        for register in range(2 * len(values)):
            out[lane, register] = values[register // 2][layout.element(lane, register % 2)]
    return out


def load(count: int, trans: bool) -> tuple[ThreadProgram, np.ndarray]:
    made = ThreadProgram(32)
    tile = made.shared(ROW_WORDS * 8 * count)
    made.fill_shared(tile, matrices(count))
    array = made.local(count, "words")
    made.add(ldmatrix(address_of(array, 0), address_of(tile, rows(made, count)), count=count, trans=trans))
    return made, made.result(array, count)


def store(count: int, trans: bool) -> tuple[ThreadProgram, np.ndarray]:
    made = ThreadProgram(32)
    tile = made.shared(ROW_WORDS * 8 * count)
    array = made.registers(registers(matrices(count), trans).view(np.uint32), "words")
    made.add(stmatrix(address_of(tile, rows(made, count)), address_of(array, 0), count=count, trans=trans))
    made.barrier()
    back = made.local(count, "back")
    made.copy(back, 0, tile, made.thread * count, count)
    return made, made.result(back, count)


def test_loads(execute: Any) -> None:
    cases = [(count, trans, *load(count, trans)) for count, trans in FORMS]
    execute(*(made for _count, _trans, made, _words in cases))
    for count, trans, _made, words in cases:
        np.testing.assert_array_equal(words.view(np.uint16), registers(matrices(count), trans), f"x{count} {trans}")


def test_stores(execute: Any) -> None:
    cases = [(count, trans, *store(count, trans)) for count, trans in FORMS]
    execute(*(made for _count, _trans, made, _words in cases))
    for count, trans, _made, words in cases:
        np.testing.assert_array_equal(
            words.view(np.uint16).reshape(-1), matrices(count).reshape(-1), f"x{count} {trans}"
        )


@pytest.mark.compile
def test_the_printed_forms_compile(assemble: Callable[..., str]) -> None:
    assert "warning" not in assemble("sm_75", *(load(*form)[0] for form in FORMS))
    assert "warning" not in assemble("sm_90", *(store(*form)[0] for form in FORMS))


@pytest.mark.parametrize("count", [0, 3, 8])
def test_no_instruction_moves_that_many(count: int) -> None:
    program = ThreadProgram(32)
    array, tile = program.local(4, "words"), program.shared(64)
    with pytest.raises(ValueError, match="1, 2 or 4"):
        ldmatrix(address_of(array, 0), address_of(tile, 0), count=count)
