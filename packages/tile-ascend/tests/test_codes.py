"""One program for what this dialect does not have yet: its class, the line, and what its message names."""

from __future__ import annotations

import pytest

from tile_core.errors import backends as codes
from tile_core.testing.codes import Program, inside, refuse

PROGRAMS = {
    "DialectNameUnimplementedError": Program(
        "import tile_ascend.language as T\n" + inside("T.SimdVF()  # HERE", launch="1"), "SimdVF"
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_for_each_code(name):
    refuse(getattr(codes, name), PROGRAMS[name])
