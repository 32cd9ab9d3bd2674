"""Every matrix instruction: its layouts, its result in the emulator, and that Clang compiles what is printed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tile_rocm.emulator
from tile_core.emulator import EmulatedLanguage
from tile_core.errors import EmulatedInstructionError
from tile_core.printer.instructions import address_of
from tile_core.testing import thread_program
from tile_core.testing.matrices import assert_same, from_registers, product, random, to_registers
from tile_core.testing.thread_program import ThreadProgram
from tile_rocm.instructions.matrix import builtin, matrix
from tile_rocm.instructions.shapes import MatrixInstruction, instructions
from tile_rocm.printer import HIP
from tile_rocm.target import table

INCLUDE = Path(tile_rocm.emulator.__path__[0]) / "include"
OF = {name: instructions(facts) for name, facts in table().architectures.items()}
ALL = sorted({one for listed in OF.values() for one in listed}, key=repr)


def program(instruction: MatrixInstruction, *, special: bool = False) -> tuple[ThreadProgram, np.ndarray, np.ndarray]:
    """D = A × B + C: the program, the words of the result, and the expected matrix."""
    rng = np.random.default_rng(instruction.k)
    a = random((instruction.m, instruction.k), instruction.a, rng, special)
    b = random((instruction.k, instruction.n), instruction.b, rng)
    c = random((instruction.m, instruction.n), instruction.d, rng)
    layouts = (instruction.d_layout, instruction.a_layout, instruction.b_layout)
    made, held = ThreadProgram(instruction.wave), []
    for name, values, layout in zip("dab", (c, a, b), layouts, strict=True):
        held.append(made.registers(to_registers(values, layout, getattr(instruction, name)), name))
    made.add(matrix(*(address_of(array, 0) for array in held), instruction=instruction))
    return made, made.result(held[0], int(held[0].shape[0])), product(a, b, c, instruction.d)


def emulate(wave: int, *programs: ThreadProgram) -> None:
    thread_program.emulate(EmulatedLanguage(HIP, "hip_emulator.h", INCLUDE, wave), *programs)


@pytest.mark.parametrize("instruction", ALL, ids=lambda one: f"{one.family}_{one.name}")
def test_every_element_has_one_place(instruction: MatrixInstruction) -> None:
    for layout, copies in (
        (instruction.a_layout, 2 if instruction.family == "wmma" else 1),
        (instruction.b_layout, 2 if instruction.family == "wmma" else 1),
        (instruction.d_layout, 1),
    ):
        places = [
            (layout.element(lane, at), (lane, at)) for lane in range(layout.lanes) for at in range(layout.registers)
        ]
        assert layout.lanes == instruction.wave
        assert len(places) == copies * layout.rows * layout.columns
        assert len({element for element, _place in places}) == layout.rows * layout.columns
        assert {layout.place(*element) for element, _place in places} <= {place for _element, place in places}


# AMD matrix instruction calculator and ISA guides: (lane, register) of the element in row 6, column 3.
@pytest.mark.parametrize(
    ("arch", "name", "operand", "expected"),
    [
        ("gfx942", "f32_16x16x16_f16", "a", (6, 3)),
        ("gfx942", "f32_16x16x16_f16", "b", (19, 2)),
        ("gfx942", "f32_16x16x16_f16", "d", (19, 2)),
        ("gfx942", "f32_32x32x8_f16", "b", (35, 2)),
        ("gfx942", "f32_32x32x8_f16", "d", (35, 2)),
        ("gfx942", "i32_16x16x32_i8", "b", (3, 6)),
        ("gfx942", "f64_16x16x4_f64", "d", (35, 1)),
        ("gfx942", "f32_16x16x4_f32", "a", (54, 0)),
        ("gfx950", "f32_16x16x32_f16", "b", (3, 6)),
        ("gfx1100", "f32_16x16x16_f16", "a", (6, 3)),
        ("gfx1100", "f32_16x16x16_f16", "d", (3, 3)),
        ("gfx1201", "f32_16x16x16_f16", "a", (6, 3)),
        ("gfx1201", "f32_16x16x16_f16", "d", (3, 6)),
    ],
)
def test_registers_are_those_of_the_manuals(arch: str, name: str, operand: str, expected: tuple[int, int]) -> None:
    (instruction,) = (one for one in OF[arch] if one.name == name)
    assert getattr(instruction, f"{operand}_layout").place(6, 3) == expected


@pytest.mark.emulate
@pytest.mark.parametrize("wave", [64, 32])
def test_results(wave: int) -> None:
    chosen = [one for one in ALL if one.wave == wave]
    cases = [(one, *program(one, special=one.d != "int32")) for one in chosen]
    emulate(wave, *(made for _one, made, _words, _expected in cases))
    for one, _made, words, expected in cases:
        assert_same(from_registers(words, one.d_layout, one.d), expected)


@pytest.mark.emulate
def test_subnormal_operands_are_zeros_on_gfx90a_only() -> None:
    for arch, is_zero in (("gfx90a", True), ("gfx942", False)):
        (instruction,) = (one for one in OF[arch] if one.name == "f32_16x16x16_f16")
        a, b = np.full((16, 16), 2.0**-20, np.float16), np.full((16, 16), 1.0, np.float16)
        made, held = ThreadProgram(64), []
        for name, values in (("d", np.zeros((16, 16), np.float32)), ("a", a), ("b", b)):
            layout = getattr(instruction, f"{name}_layout")
            held.append(made.registers(to_registers(values, layout, getattr(instruction, name)), name))
        made.add(matrix(*(address_of(array, 0) for array in held), instruction=instruction))
        words = made.result(held[0], 4)
        emulate(64, made)
        assert (from_registers(words, instruction.d_layout, "float32") == (0 if is_zero else 2.0**-16)).all()


@pytest.mark.emulate
def test_halves_of_a_wave_must_hold_the_same_operands() -> None:
    (instruction,) = (one for one in OF["gfx1100"] if one.name == "f32_16x16x16_f16")
    made = ThreadProgram(32)
    lanes = np.arange(32, dtype=np.float16)[:, None].repeat(16, 1)
    held = [made.registers(np.zeros((32, 8), np.float32), "d"), *(made.registers(lanes.copy(), name) for name in "ab")]
    made.add(matrix(*(address_of(array, 0) for array in held), instruction=instruction))
    with pytest.raises(EmulatedInstructionError, match="halves of a wave"):
        emulate(32, made)


@pytest.mark.compile
@pytest.mark.parametrize("arch", ["gfx90a", "gfx942", "gfx1100", "gfx1201"])
def test_clang_knows_them(arch: str, assemble: Any) -> None:
    made = [program(one)[0] for one in OF[arch]]
    text = assemble(thread_program.source(HIP, *made), arch)
    for one in OF[arch]:
        mnemonic = "v_mfma" if one.family == "mfma" else "v_wmma"
        assert f"{mnemonic}_{one.d.replace('float', 'f').replace('int', 'i')}_{one.m}x{one.n}x{one.k}" in text, builtin(
            one
        )
    assert "scratch_store" not in text
