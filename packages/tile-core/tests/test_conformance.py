"""The conformance suite on the interpreter, whose results the backends are held against."""

from __future__ import annotations

from tile_core.testing import BackendConformance


class TestInterpreter(BackendConformance):
    target = "interpret"
