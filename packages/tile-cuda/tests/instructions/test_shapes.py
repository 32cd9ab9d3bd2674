"""Layouts name every element of a matrix exactly once, and are those of the manual."""

from __future__ import annotations

import pytest

from tile_core.layouts.registers import Digit, FragmentLayout
from tile_cuda.instructions import shapes
from tile_cuda.instructions.shapes import TABLE, MatrixInstruction


def layouts_of(instruction: MatrixInstruction) -> list[FragmentLayout]:
    listed = (instruction.a_layout, instruction.b_layout, instruction.d_layout)
    return [layout for layout in listed if layout is not None]


DISTINCT = sorted({layout for instruction in TABLE for layout in layouts_of(instruction)}, key=repr)


@pytest.mark.parametrize("layout", DISTINCT, ids=lambda layout: f"{layout.rows}x{layout.columns}r{layout.registers}")
def test_every_element_has_one_place(layout: FragmentLayout) -> None:
    seen = {}
    for lane in range(layout.lanes):
        for register in range(layout.registers):
            row, column = layout.element(lane, register)
            assert 0 <= row < layout.rows and 0 <= column < layout.columns
            assert layout.place(row, column) == (lane, register)
            seen[row, column] = lane, register
    assert len(seen) == layout.rows * layout.columns == layout.lanes * layout.registers


@pytest.mark.parametrize(
    "digits",
    [
        ((4, 1, 2), (8, 0, 1)),
        ((4, 1, 1), (8, 0, 2)),
        ((4, 1, 1), (4, 0, 1)),
        ((4, 1, 1), (8, 0, 1), (2, 0, 4)),
    ],
)
def test_a_layout_that_repeats_or_misses_elements_is_refused(digits: tuple[tuple[int, int, int], ...]) -> None:
    with pytest.raises(ValueError, match="digit"):
        FragmentLayout(8, 4, tuple(Digit(*digit) for digit in digits), ())


# PTX ISA, "Matrix Fragments for mma.m16n8k16 with floating point type" and others. Lane 6: group 1, thread 2.
@pytest.mark.parametrize(
    ("name", "operand", "register", "expected"),
    [
        ("m16n8k16_f32_f16_f16", "a", 0, (1, 4)),
        ("m16n8k16_f32_f16_f16", "a", 3, (9, 5)),
        ("m16n8k16_f32_f16_f16", "a", 4, (1, 12)),
        ("m16n8k16_f32_f16_f16", "a", 7, (9, 13)),
        ("m16n8k16_f32_f16_f16", "b", 1, (5, 1)),
        ("m16n8k16_f32_f16_f16", "b", 2, (12, 1)),
        ("m16n8k16_f32_f16_f16", "d", 3, (9, 5)),
        ("m16n8k8_f32_f16_f16", "a", 2, (9, 4)),
        ("m16n8k8_f32_tf32_tf32", "a", 1, (9, 2)),
        ("m16n8k8_f32_tf32_tf32", "a", 2, (1, 6)),
        ("m16n8k8_f32_tf32_tf32", "b", 1, (6, 1)),
        ("m16n8k32_s32_s8_s8", "a", 4, (9, 8)),
        ("m16n8k32_s32_s8_s8", "a", 9, (1, 25)),
        ("m16n8k32_s32_s8_s8", "b", 5, (25, 1)),
        ("m8n8k16_s32_s8_s8", "a", 3, (1, 11)),
        ("m8n8k16_s32_s8_s8", "d", 1, (1, 5)),
        ("m16n8k64_s32_s4_s4", "a", 8, (9, 16)),
        ("m16n8k64_s32_s4_s4", "a", 16, (1, 48)),
        ("m16n8k64_s32_s4_s4", "b", 9, (49, 1)),
        ("m8n8k4_f64_f64_f64", "a", 0, (1, 2)),
        ("m8n8k4_f64_f64_f64", "b", 0, (2, 1)),
        ("m8n8k4_f64_f64_f64", "d", 1, (1, 5)),
        ("m16n8k16_f64_f64_f64", "a", 5, (9, 10)),
    ],
)
def test_registers_are_those_of_the_manual(name: str, operand: str, register: int, expected: tuple[int, int]) -> None:
    (instruction,) = (i for i in TABLE if i.name == name)
    layout = getattr(instruction, f"{operand}_layout")
    assert layout.element(6, register) == expected


def test_wgmma_registers_are_those_of_the_manual() -> None:
    found = shapes.find("wgmma", (64, 256, 16), "float32", "float16", "float16")
    assert found is not None and found.b_layout is None
    thread = 3 * 32 + 6  # warp 3
    for register in range(128):
        j, h, e = register // 4, register // 2 % 2, register % 2
        assert found.d_layout.element(thread, register) == (48 + 1 + 8 * h, 8 * j + 4 + e)
    assert [found.a_layout.element(thread, register) for register in (0, 2, 4, 7)] == [
        (49, 4),
        (57, 4),
        (49, 12),
        (57, 13),
    ]


def test_which_instructions_an_architecture_has() -> None:
    names = [i.name for i in shapes.instructions("float32", "float16", "float16", 80)]
    assert names == ["m16n8k16_f32_f16_f16", "m16n8k8_f32_f16_f16"]
    assert {i.family for i in shapes.instructions("float32", "bfloat16", "bfloat16", 90)} == {"mma", "wgmma"}
    assert {i.family for i in shapes.instructions("float32", "bfloat16", "bfloat16", 120)} == {"mma"}
    assert shapes.instructions("float32", "float32", "float32", 90) == ()
    assert shapes.instructions("float32", "float6_e2m3fn", "float16", 90) == ()
    n = [i.n for i in shapes.instructions("int32", "int8", "uint8", 90, "wgmma")]
    assert n == [8, 16, 24, 32, 48, 64, 80, 96, 112, 128, 144, 160, 176, 192, 208, 224, 240, 256]


def test_instructions_of_two_dtypes_are_one_entry_each() -> None:
    keys = [(i.family, i.name) for i in TABLE]
    assert len(keys) == len(set(keys))
