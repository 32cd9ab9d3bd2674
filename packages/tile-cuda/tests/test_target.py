"""Targets, their facts, and detection with its reasons."""

from __future__ import annotations

import pytest

from tile_core.targets import Target, select_target
from tile_cuda import target
from tile_cuda.target import capabilities, parse_target, table


@pytest.mark.parametrize(("given", "architecture"), [("sm_90a", "sm_90"), ("sm_100f", "sm_100"), ("sm_75", "sm_75")])
def test_an_architecture_is_normalised(given: object, architecture: str) -> None:
    parsed = parse_target("cuda", {"arch": given})
    assert parsed == Target("cuda", "cuda", {"arch": architecture})
    assert capabilities(parsed) is table().capabilities(architecture)


@pytest.mark.parametrize("kind", ["cuda"])
def test_a_kind_alone_means_the_default_architecture(kind: str) -> None:
    chosen = select_target(kind)
    assert chosen.backend == "cuda"
    assert chosen.option("arch") == "sm_80"
    assert select_target(str(chosen)) == chosen


def test_a_block_leaves_the_reserved_kibibyte_of_shared_memory() -> None:
    for name, facts in table().architectures.items():
        reserved = 0 if name == "sm_75" else 1024
        assert facts.shared_bytes == facts.fact("shared_bytes_per_sm") - reserved, name


@pytest.mark.parametrize("name", ["sm_75", "sm_80", "sm_86", "sm_89"])
def test_tma_and_clusters_begin_with_sm_90(name: str) -> None:
    before, after = table().capabilities(name), table().capabilities("sm_90")
    assert not before.fact("clusters")
    assert after.fact("clusters")
    assert "cp.async.bulk.tensor" not in before.fact("async_copy")
    assert "cp.async.bulk.tensor" in after.fact("async_copy")


def test_tensor_memory_is_a_fact_of_the_data_centre_blackwells() -> None:
    with_memory = {name for name, facts in table().architectures.items() if facts.fact("tensor_memory_columns")}
    assert with_memory == {"sm_100", "sm_103", "sm_110"}


def test_without_a_driver_the_reason_names_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise OSError(name)

    monkeypatch.setattr(target.ctypes, "CDLL", missing)
    found = target.detect()
    assert not found.available
    assert "libcuda.so.1" in found.reason


@pytest.mark.parametrize(("architecture", "available"), [("sm_90", True), ("sm_61", False), (None, False)])
def test_a_gpu_counts_if_the_table_lists_it(
    monkeypatch: pytest.MonkeyPatch, architecture: str | None, available: bool
) -> None:
    monkeypatch.setattr(target, "device_architecture", lambda: (architecture, f"found {architecture}"))
    found = target.detect()
    assert found.available is available
    assert f"found {architecture}" in found.reason
