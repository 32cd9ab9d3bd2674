"""The conformance suite on this backend: everything, nothing skipped."""

from __future__ import annotations

from tile_core.testing import BackendConformance


class TestCpu(BackendConformance):
    target = "cpu"
