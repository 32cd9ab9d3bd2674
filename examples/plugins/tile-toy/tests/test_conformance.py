"""The conformance suite of tile-core on the toy backend: what is not supported is declared here."""

from __future__ import annotations

from tile_core.testing import BackendConformance


class TestConformance(BackendConformance):
    target = "toy"
    supports = BackendConformance.ALL - {"bfloat16", "float16", "float8", "float8_fnuz", "float8_e8m0fnu", "narrow"}
