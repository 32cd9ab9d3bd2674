"""Every known small input that breaks compilers of this kind is a conformance program, or a test that is named here."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tile_core.testing.programs import PROGRAMS

ROOT = Path(__file__).parents[4]
FAMILIES = {
    "layout and thread mapping": "L1 L3 L4 L5 L8 L9 L11 L13 L14 L15",
    "vector code": "V1 V2 V4 V5 V6 V8 V10 V13 V14 V15",
    "copies, regions, bounds": "C1 C3 C4 C5 C6 C8 C10 C11 C13 C14 C15 C16 C19 C20",
    "synchronisation and pipelines": "S1 S4 S6 S8 S9 S10 S12 S13 S15",
    "reductions, scans, atomics": "R1 R3 R4 R6 R8 R11 R13 R14 A1 A3 A4 A6",
    "gemm": "G1 G2 G4 G6 G9",
    "numerics": "D3 D4 D6 D7 D9 D10 D11 D14 D15",
    "front end": "F2 F3 F4 F5 F6 F7 F9 F11 F12 F13 F15 F16 F17",
}
ELSEWHERE = {
    "C16": "packages/tile-core/tests/passes/test_legalize_bounds.py::test_tiles_that_divide_their_tensor_have_no_guard",
    "F17": "packages/tile-core/tests/frontend/test_source.py::test_source_from_the_command_line",
}
"""What is about generated code or about where the source comes from, not about what a kernel computes."""


@pytest.mark.parametrize("family", FAMILIES)
def test_every_case_is_a_program(family: str) -> None:
    covered = {program.case for program in PROGRAMS} | set(ELSEWHERE)
    assert not set(FAMILIES[family].split()) - covered


@pytest.mark.parametrize("case", ELSEWHERE)
def test_what_is_tested_elsewhere_is(case: str) -> None:
    path, _, name = ELSEWHERE[case].partition("::")
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    assert name in {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def test_no_program_names_a_case_that_is_not_listed() -> None:
    host = "H2 H4 H5 H6 H7 H8 H10 H11 H12 H13 H15 H17 H19 T1 T2 T8"
    known = {case for cases in (*FAMILIES.values(), host) for case in cases.split()}
    assert {program.case for program in PROGRAMS if program.case} <= known
