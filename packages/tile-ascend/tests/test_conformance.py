"""The conformance suite on this backend's printed source, run on the CPU by the emulator."""

from __future__ import annotations

from typing import ClassVar

import pytest

from tile_core.testing import BackendConformance


@pytest.mark.emulate
class TestAscend(BackendConformance):
    target = "ascend"
    execution = "emulate"
    # The vector unit has no float64.
    supports = BackendConformance.ALL - {"float64", "float8", "float8_fnuz", "float8_e8m0fnu"}
    expected_failures: ClassVar[dict[str, str]] = {
        "atomics.additions_of_several_dtypes": "one of its dtypes is float64",
        "dtypes.a_double_variable_keeps_its_range": "the vector unit has no float64",
    }
