"""The conformance suite on this backend's printed source, run on the CPU by the emulator."""

from __future__ import annotations

from typing import ClassVar

import pytest

from tile_core.testing import BackendConformance

WIDE_ATOMICS = "Metal has no atomic operations of 8 bytes"


@pytest.mark.emulate
class TestMetal(BackendConformance):
    target = "metal"
    execution = "emulate"
    supports = BackendConformance.ALL - {"float64", "float8", "float8_fnuz", "float8_e8m0fnu"}
    expected_failures: ClassVar = {
        "atomics.sums_of_integers_wrap": WIDE_ATOMICS,
        "dtypes.a_double_variable_keeps_its_range": "Metal has no float64",
    }
