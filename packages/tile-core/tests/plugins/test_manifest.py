"""A manifest is checked when it is constructed."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from tile_core.errors import BackendManifestError
from tile_core.plugins import Backend, Detection

FIELDS: dict[str, Any] = {
    "name": "toy",
    "target_kinds": ("toy",),
    "dialect": "tile_toy.language",
    "detect": "tile_toy.target:detect",
    "parse_target": "tile_toy.target:parse",
    "capabilities": "tile_toy.target:capabilities",
    "compiler": "tile_toy.compiler:compile",
    "runtime": "tile_toy.runtime:load",
}


def test_a_right_manifest() -> None:
    backend = Backend(**FIELDS, op_lowerings={"tile.copy": "tile_toy.ops:copy"})
    assert backend.printer is None
    assert dict(backend.op_lowerings) == {"tile.copy": "tile_toy.ops:copy"}
    assert hash(backend) == hash(Backend(**FIELDS))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("name", "Toy"),
        ("name", "my-toy"),
        ("name", ""),
        ("name", None),
        ("target_kinds", ()),
        ("target_kinds", "toy"),
        ("target_kinds", ["toy"]),
        ("target_kinds", ("toy", "toy")),
        ("target_kinds", ("auto",)),
        ("target_kinds", ("toy one",)),
        ("dialect", "tile_toy/language"),
        ("dialect", "tile_toy:language"),
        ("detect", "tile_toy.target.detect"),
        ("detect", ":detect"),
        ("detect", "tile_toy.target:"),
        ("detect", "tile toy:detect"),
        ("compiler", None),
        ("compiler", print),
        ("printer", "tile_toy.printer"),
        ("pipeline_edits", "edits"),
        ("op_lowerings", {"tile.copy": "copy"}),
        ("op_lowerings", {"": "tile_toy.ops:copy"}),
        ("op_lowerings", [("tile.copy", "tile_toy.ops:copy")]),
    ],
)
def test_a_wrong_field_is_named_with_its_value(field: str, value: Any) -> None:
    with pytest.raises(BackendManifestError) as caught:
        Backend(**{**FIELDS, field: value})
    assert field in caught.value.message
    assert isinstance(caught.value, ValueError)


def test_a_manifest_is_frozen() -> None:
    backend = Backend(**FIELDS, op_lowerings={"tile.copy": "tile_toy.ops:copy"})
    with pytest.raises(dataclasses.FrozenInstanceError):
        backend.name = "other"  # type: ignore[misc]
    with pytest.raises(TypeError):
        backend.op_lowerings["tile.fill"] = "x:y"  # type: ignore[index]


def test_positional_fields_are_refused() -> None:
    with pytest.raises(TypeError):
        Backend("toy", ("toy",), "tile_toy.language")  # type: ignore[misc,call-arg]


def test_unavailable_needs_a_reason() -> None:
    with pytest.raises(BackendManifestError, match="reason"):
        Detection(available=False, reason="")
