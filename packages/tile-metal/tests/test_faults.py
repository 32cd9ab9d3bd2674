"""Faults planted into kernels of this backend are found by the emulator's checks."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tile_core.errors import UnprintableError
from tile_core.testing.faults import PlantedFaults

ORDERS = "that orders other accesses"


@pytest.mark.emulate
class TestFaults(PlantedFaults):
    target = "metal"

    def test_an_atomic_store_needs_no_value_before(self, run: Callable[..., None]) -> None:
        """Metal's are relaxed."""
        with pytest.raises(UnprintableError, match=ORDERS):
            super().test_an_atomic_store_needs_no_value_before(run)

    def test_ordered_updates_order_blocks_and_relaxed_ones_do_not(self, run: Callable[..., None]) -> None:
        """There are no ordered ones."""
        with pytest.raises(UnprintableError, match=ORDERS):
            super().test_ordered_updates_order_blocks_and_relaxed_ones_do_not(run)
