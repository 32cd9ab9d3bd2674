"""Targets, their facts, and detection with its reasons."""

from __future__ import annotations

import pytest

from tile_core.dtypes import as_dtype
from tile_core.errors import TargetSpecError
from tile_core.targets import Target, select_target
from tile_metal import target
from tile_metal.target import capabilities, parse_target, table


@pytest.mark.parametrize(("given", "architecture"), [("apple9", "apple9")])
def test_an_architecture_is_normalised(given: object, architecture: str) -> None:
    parsed = parse_target("metal", {"arch": given})
    assert parsed == Target("metal", "metal", {"arch": architecture})
    assert capabilities(parsed) is table().capabilities(architecture)


@pytest.mark.parametrize("kind", ["metal"])
def test_a_kind_alone_means_the_default_architecture(kind: str) -> None:
    chosen = select_target(kind)
    assert chosen.backend == "metal"
    assert chosen.option("arch") == "apple7"
    assert select_target(str(chosen)) == chosen


def test_an_unknown_architecture_is_refused_with_the_known_ones() -> None:
    with pytest.raises(TargetSpecError, match="apple3") as error:
        select_target({"kind": "metal", "arch": "apple3"})
    assert "apple7" in error.value.remedy


def test_an_unknown_option_is_refused() -> None:
    with pytest.raises(TargetSpecError, match="'colour'"):
        select_target({"kind": "metal", "colour": "red"})


def test_every_dtype_in_the_table_exists() -> None:
    for facts in table().architectures.values():
        names = [*facts.dtypes, *facts.facts.get("convert_dtypes", [])]
        for entry in facts.fact("matrix"):
            for operand in ("a", "b", "c"):
                named = entry.get(operand, [])
                names += [named] if isinstance(named, str) else named
        assert all(as_dtype(name).name == name for name in names)


def test_there_is_no_double() -> None:
    assert all(not facts.supports("float64") for facts in table().architectures.values())


def test_every_family_multiplies_8x8_tiles() -> None:
    for name, facts in table().architectures.items():
        assert {tuple(entry["shape"]) for entry in facts.fact("matrix")} == {(8, 8, 8)}, name


@pytest.mark.parametrize("machine", [("Linux", "x86_64"), ("Darwin", "x86_64")])
def test_elsewhere_the_reason_names_the_machine(monkeypatch: pytest.MonkeyPatch, machine: tuple[str, str]) -> None:
    monkeypatch.setattr(target.platform, "system", lambda: machine[0])
    monkeypatch.setattr(target.platform, "machine", lambda: machine[1])
    found = target.detect()
    assert not found.available
    assert f"{machine[0]} on {machine[1]}" in found.reason


def test_on_apple_silicon_the_backend_is_still_not_available(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(target.platform, "system", lambda: "Darwin")
    monkeypatch.setattr(target.platform, "machine", lambda: "arm64")
    found = target.detect()
    assert not found.available
    assert "does not generate code yet" in found.reason
