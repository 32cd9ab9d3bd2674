"""One program for every code of this backend: its class and what its message names."""

from __future__ import annotations

import ctypes
import importlib.util

import pytest

from tile_core.testing.codes import Program, inside, refuse
from tile_cuda import errors, nvrtc, runtime

COMPILE = 'tl.compile(kernel, target={"kind": "cuda", "arch": "sm_80"})'

NEWER = COMPILE.replace("sm_80", "sm_90")

PROGRAMS = {
    "DeviceCompilerError": Program(
        inside("A[0] = 1", launch='1, threads=32, prelude="this is no C++"', then=COMPILE), "NVRTC refused"
    ),
    "MissingDriverError": Program("without_driver(); load_driver()", "libcuda.so.1"),
    "ToolchainArchitectureError": Program("with_compiler(75, 80)\n" + inside("A[0] = 3", then=NEWER), "sm_90"),
    "MissingNvrtcError": Program("without_nvrtc()\n" + inside("A[0] = 3", then=COMPILE), "NVRTC"),
}
NEEDS_NVRTC = {"DeviceCompilerError", "ToolchainArchitectureError"}


@pytest.fixture
def machine(monkeypatch):
    """What makes this machine one without the vendor's libraries."""

    def without_driver():
        def missing(name):
            raise OSError(name)

        monkeypatch.setattr(ctypes, "CDLL", missing)

    def without_nvrtc():
        monkeypatch.setattr(nvrtc, "_libraries", lambda: ["libnothing.so"])

    def with_compiler(*architectures):
        monkeypatch.setattr(nvrtc, "_architectures", lambda library: architectures)

    for cached in (nvrtc._nvrtc, runtime._driver):
        cached.cache_clear()
    yield {
        "without_driver": without_driver,
        "without_nvrtc": without_nvrtc,
        "with_compiler": with_compiler,
        "load_driver": runtime._driver,
    }
    for cached in (nvrtc._nvrtc, runtime._driver):
        cached.cache_clear()


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_for_each_code(name, machine, monkeypatch, tmp_path):
    if name in NEEDS_NVRTC and importlib.util.find_spec("nvidia") is None:
        pytest.skip("NVRTC is not installed")
    monkeypatch.setenv("TILE_CACHE_DIR", str(tmp_path))
    refuse(getattr(errors, name), PROGRAMS[name], machine)
