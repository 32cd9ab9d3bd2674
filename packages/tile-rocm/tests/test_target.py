"""Targets, their facts, and detection with its reasons."""

from __future__ import annotations

from pathlib import Path

import pytest

from tile_core.targets import Target, select_target
from tile_rocm import target
from tile_rocm.target import capabilities, parse_target, table


@pytest.mark.parametrize(("given", "architecture"), [("gfx90a:sramecc+:xnack-", "gfx90a"), ("gfx1201", "gfx1201")])
def test_an_architecture_is_normalised(given: object, architecture: str) -> None:
    parsed = parse_target("rocm", {"arch": given})
    assert parsed == Target("rocm", "rocm", {"arch": architecture})
    assert capabilities(parsed) is table().capabilities(architecture)


@pytest.mark.parametrize("kind", ["rocm", "hip"])
def test_a_kind_alone_means_the_default_architecture(kind: str) -> None:
    chosen = select_target(kind)
    assert chosen.backend == "rocm"
    assert chosen.option("arch") == "gfx942"
    assert select_target(str(chosen)) == chosen


def test_a_wavefront_has_64_lanes_on_cdna_and_32_on_rdna() -> None:
    sizes = {name: facts.warp_size for name, facts in table().architectures.items()}
    assert sizes == {"gfx90a": 64, "gfx942": 64, "gfx950": 64, "gfx1100": 32, "gfx1201": 32}


def test_each_architecture_has_one_family_of_fp8() -> None:
    for name, facts in table().architectures.items():
        formats = {text for text in facts.fact("convert_dtypes") if text.startswith("float8")}
        variants = {"fnuz" if text.endswith("fnuz") else "fn" for text in formats}
        assert variants <= {facts.fact("fp8_variant")}, name


def test_without_a_driver_the_reason_names_the_device_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(target, "_KERNEL_DRIVER", tmp_path / "kfd")
    found = target.detect()
    assert not found.available
    assert str(tmp_path / "kfd") in found.reason


def test_without_the_libraries_the_reason_names_them(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(target, "_KERNEL_DRIVER", tmp_path)
    monkeypatch.setattr(target, "candidates", lambda name: iter(()))
    found = target.detect()
    assert not found.available
    assert "libhiprtc.so and libamdhip64.so" in found.reason


def test_with_driver_and_libraries_the_backend_is_available(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(target, "_KERNEL_DRIVER", tmp_path)
    monkeypatch.setattr(target, "candidates", lambda name: iter((f"/opt/rocm/lib/lib{name}.so",)))
    assert target.detect().available
