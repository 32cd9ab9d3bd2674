"""The report as a mapping and as a table."""

from __future__ import annotations

from tile_core.jit.report import Report

FACTS = {
    "shared_bytes": 16384,
    "ratio": 0.5,
    "guards": 2,
    "tiles": [{"name": "A_s", "bytes": 8192}, {"name": "B_s", "bytes": 8192}],
    "vector_widths": {"A": 16, "C": 8},
    "none": [],
    "grid": [4, 2],
}


def test_it_is_a_mapping():
    report = Report("gemm", FACTS)
    assert dict(report) == FACTS
    assert report["guards"] == 2
    assert "tiles" in report
    assert len(report) == len(FACTS)


def test_it_prints_as_a_table():
    assert str(Report("gemm", FACTS)).splitlines() == [
        "gemm",
        "  shared_bytes  16384",
        "  ratio         0.5",
        "  guards        2",
        "  tiles",
        "    name A_s, bytes 8192",
        "    name B_s, bytes 8192",
        "  vector_widths",
        "    A  16",
        "    C  8",
        "  none          none",
        "  grid          4, 2",
    ]
