"""The conformance suite on this backend's printed source, run on the CPU by the emulator."""

from __future__ import annotations

import pytest

from tile_core.testing import BackendConformance


@pytest.mark.emulate
class TestRocm(BackendConformance):
    target = "rocm"
    execution = "emulate"
    supports = BackendConformance.ALL - {"float8_e8m0fnu"}
