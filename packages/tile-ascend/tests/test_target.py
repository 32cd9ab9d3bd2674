"""Targets, their facts, and detection with its reasons."""

from __future__ import annotations

from pathlib import Path

import pytest

from tile_ascend import target
from tile_ascend.target import capabilities, parse_target, table
from tile_core.targets import Target, select_target


@pytest.mark.parametrize(("given", "architecture"), [("950", "950"), (950, "950")])
def test_an_architecture_is_normalised(given: object, architecture: str) -> None:
    parsed = parse_target("ascend", {"arch": given})
    assert parsed == Target("ascend", "ascend", {"arch": architecture})
    assert capabilities(parsed) is table().capabilities(architecture)


@pytest.mark.parametrize("kind", ["ascend"])
def test_a_kind_alone_means_the_default_architecture(kind: str) -> None:
    chosen = select_target(kind)
    assert chosen.backend == "ascend"
    assert chosen.option("arch") == "950"
    assert select_target(str(chosen)) == chosen


def test_a_block_is_sequential() -> None:
    facts = table().capabilities("950")
    assert not facts.threads
    assert facts.max_threads == 1


def test_a_simt_function_leaves_less_of_the_unified_buffer() -> None:
    facts = table().capabilities("950")
    assert facts.shared_bytes is not None
    assert facts.shared_bytes - facts.fact("simt_reserved_bytes") == 216 * 1024


def test_without_a_driver_the_reason_names_the_device_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(target, "_KERNEL_DRIVER", tmp_path / "davinci_manager")
    found = target.detect()
    assert not found.available
    assert str(tmp_path / "davinci_manager") in found.reason


def test_with_a_driver_the_backend_is_still_not_available(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(target, "_KERNEL_DRIVER", tmp_path)
    found = target.detect()
    assert not found.available
    assert "does not generate code yet" in found.reason
