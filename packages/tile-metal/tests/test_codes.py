"""One program for what this backend does not do yet: its class and what its message names."""

from __future__ import annotations

import pytest

from tile_core.errors import backends as codes
from tile_core.testing.codes import Program, inside, refuse

PROGRAMS = {
    "CodeGenerationUnimplementedError": Program(inside("A[0] = 1", then='tl.compile(kernel, target="metal")'), "metal"),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_for_each_code(name):
    refuse(getattr(codes, name), PROGRAMS[name])
