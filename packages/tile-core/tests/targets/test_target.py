"""Targets are values; capabilities are facts."""

from __future__ import annotations

import math
from typing import Any

import pytest

from tile_core.errors import CapabilityError, TargetSpecError
from tile_core.targets import Capabilities, Target


def test_equal_targets_have_equal_keys_whatever_the_order_of_options() -> None:
    first = Target("gpu", "gpu", {"arch": "a1", "features": ["x", "y"]})
    second = Target("gpu", "gpu", {"features": ("x", "y"), "arch": "a1"})
    assert first == second
    assert first.key() == second.key()
    assert len({first, second}) == 1
    assert first.key() != Target("gpu", "other", {"arch": "a1", "features": ["x", "y"]}).key()


def test_options_are_copied_and_frozen() -> None:
    options = {"features": ["x"]}
    target = Target("gpu", "gpu", options)
    options["features"].append("y")
    assert target.option("features") == ["x"]
    assert target.option("absent", 7) == 7
    with pytest.raises(TypeError):
        target.options["arch"] = "a2"  # type: ignore[index]


@pytest.mark.parametrize("options", [{"f": print}, {"x": math.nan}, {1: "a"}, [("a", 1)], {"o": {"deep": {1, 2}}}])
def test_options_are_json_values(options: Any) -> None:
    with pytest.raises(TargetSpecError, match="gpu"):
        Target("gpu", "gpu", options)


def test_facts() -> None:
    facts = Capabilities(vector_bytes=16, dtypes=frozenset({"float32"}), facts={"cores": 4})
    assert facts.fact("cores") == 4
    assert facts.fact("absent", None) is None
    assert facts.supports("float32")
    assert not facts.supports("float64")
    with pytest.raises(CapabilityError, match="cores"):
        facts.fact("corse")


@pytest.mark.parametrize("wrong", [{"vector_bytes": 0}, {"max_threads": 0}, {"warp_size": 32}, {"max_threads": 128}])
def test_impossible_capabilities_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(CapabilityError):
        Capabilities(**{"vector_bytes": 16, "dtypes": frozenset({"float32"}), **wrong})  # type: ignore[arg-type]
