"""Faults planted into kernels of this backend are found by the emulator's checks."""

from __future__ import annotations

import pytest

from tile_core.testing.faults import PlantedFaults


@pytest.mark.emulate
class TestFaults(PlantedFaults):
    target = "metal"
