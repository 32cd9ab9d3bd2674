"""The conformance suite on this backend: on this machine everything, nothing skipped; for 64-bit Arm under QEMU."""

from __future__ import annotations

import pytest

from tile_core.testing import BackendConformance
from tile_cpu.emulator import missing_tools
from tile_cpu.target import parse_target

ARM = {"kind": "cpu", "arch": "armv8-a"}
MISSING = missing_tools(parse_target("cpu", {"arch": "armv8-a"}))


class TestCpu(BackendConformance):
    target = "cpu"


@pytest.mark.skipif(MISSING != "", reason=f"kernels for 64-bit Arm are emulated, and there is no {MISSING}")
class TestArm(BackendConformance):
    target = ARM
    execution = "emulate"
    expected_failures = {  # noqa: RUF012 - as in the base
        "memory.elements_beyond_the_range_of_int32": "tensors of 2 GiB are not sent to another process",
    }
