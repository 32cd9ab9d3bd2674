"""The float8 type that a platform computes with."""

from __future__ import annotations

import pytest

from tile_core.errors import UnknownDTypeError
from tile_core.targets import determine_fp8_type


@pytest.mark.parametrize(
    ("variant", "e4m3", "e5m2"),
    [("fn", "float8_e4m3fn", "float8_e5m2"), ("fnuz", "float8_e4m3fnuz", "float8_e5m2fnuz")],
)
def test_float8_follows_the_platform(variant, e4m3, e5m2):
    facts = {"fp8_variant": variant}
    assert determine_fp8_type(facts=facts) == e4m3
    assert determine_fp8_type("e5m2", facts=facts) == e5m2
    assert determine_fp8_type("e4m3", facts={}) == "float8_e4m3fn"


def test_unknown_float8_format():
    with pytest.raises(UnknownDTypeError, match="e3m4"):
        determine_fp8_type("e3m4", facts={})


def test_without_facts_the_selected_target_is_asked(monkeypatch):
    monkeypatch.setenv("TILE_TARGET", "interpret")
    assert determine_fp8_type("e5m2") == "float8_e5m2"
