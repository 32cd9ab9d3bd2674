"""Targets, their facts, and detection with its reasons."""

from __future__ import annotations

import pytest

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


@pytest.mark.parametrize(
    ("torch", "available", "reason"),
    [
        ("2.6.0", True, "torch 2.6.0"),
        ("2.13.0a0+git1", True, "torch 2.13.0a0"),
        ("2.5.1", False, "older than 2.6"),
        (None, False, "torch, which launches, is not installed"),
    ],
)
def test_on_apple_silicon_torch_decides(
    monkeypatch: pytest.MonkeyPatch, torch: str | None, available: bool, reason: str
) -> None:
    def version(name: str) -> str:
        if torch is None:
            raise target.metadata.PackageNotFoundError(name)
        return torch

    monkeypatch.setattr(target.platform, "system", lambda: "Darwin")
    monkeypatch.setattr(target.platform, "machine", lambda: "arm64")
    monkeypatch.setattr(target.metadata, "version", version)
    found = target.detect()
    assert found.available == available
    assert reason in found.reason
