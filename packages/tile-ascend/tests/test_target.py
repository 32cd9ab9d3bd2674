"""Targets, their facts, and detection with its reasons."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from tile_ascend import cann, target
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


def test_threads_are_those_of_simt_functions() -> None:
    facts = table().capabilities("950")
    assert facts.threads
    assert (facts.max_threads, facts.warp_size) == (1024, 32)


def test_simt_functions_leave_less_of_the_unified_buffer() -> None:
    facts = table().capabilities("950")
    assert facts.shared_bytes == facts.fact("unified_buffer_bytes") - facts.fact("simt_reserved_bytes") == 216 * 1024


def test_without_a_driver_the_reason_names_the_device_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(target, "_KERNEL_DRIVER", tmp_path / "davinci_manager")
    found = target.detect()
    assert not found.available
    assert str(tmp_path / "davinci_manager") in found.reason


def test_each_part_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(target, "_KERNEL_DRIVER", tmp_path)
    monkeypatch.setattr(cann, "homes", lambda: iter(()))
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert "torch_npu" in target.detect().reason
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    assert "bisheng" in target.detect().reason
    (tmp_path / "bin").mkdir()
    compiler = tmp_path / "bin" / cann.COMPILER
    compiler.write_text("")
    compiler.chmod(0o755)
    monkeypatch.setattr(cann, "homes", lambda: iter((tmp_path,)))
    assert target.detect().available
