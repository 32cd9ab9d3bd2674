"""The conformance suite for any target, without a test file of one's own.

python -m pytest --pyargs tile_core.testing.suite --tile-target toy -k basic
"""

from __future__ import annotations

from tile_core.testing.conformance import BackendConformance


class TestConformance(BackendConformance):
    """Every program, on the target of `--tile-target`."""
