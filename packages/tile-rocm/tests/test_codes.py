"""One program for every code of this backend: its class and what its message names.

The vendor's libraries are stood for by objects that refuse, so that the programs need none of them.
"""

from __future__ import annotations

from typing import Any

import pytest

from tile_core.testing.codes import Program, inside, refuse
from tile_rocm import errors, hiprtc, libraries, runtime

COMPILE = 'tl.compile(kernel, target="rocm")'

PROGRAMS = {
    "DeviceCompilerError": Program("use(compiler)\n" + inside("A[0] = 1", then=COMPILE), "kernel.hip:1: error: no"),
    "LaunchError": Program(
        "use(driver)\n"
        + inside(
            "A[0] = 2",
            then="""
            made = tl.compile(kernel, target="rocm", execution="emulate")
            launch(made.artifact)(torch.zeros(8, dtype=torch.int32), torch.zeros(8))
            """,
        ),
        "refused kernel: out of luck (98)",
    ),
    "MissingRocmError": Program("use(None)\n" + inside("A[0] = 3", then=COMPILE), "libhiprtc.so"),
}


class Function:
    """A function of a library, which ctypes lets one say the types of."""

    restype: Any = None

    def __init__(self, result: Any) -> None:
        self.result = result

    def __call__(self, *arguments: Any) -> Any:
        return self.result(*arguments) if callable(self.result) else self.result


class Library:
    """A library whose functions succeed, but for those named."""

    def __init__(self, **functions: Any) -> None:
        self._functions = functions

    def __getattr__(self, name: str) -> Function:
        return Function(self._functions.get(name, 0))


LOG = b"kernel.hip:1: error: no"


def _size(_program: Any, size: Any) -> int:
    size._obj.value = len(LOG) + 1
    return 0


def _log(_program: Any, text: Any) -> int:
    text.value = LOG
    return 0


COMPILER = Library(hiprtcCompileProgram=6, hiprtcGetProgramLogSize=_size, hiprtcGetProgramLog=_log)
DRIVER = Library(hipGetErrorString=lambda status: b"out of luck")


def _refuse_launch(self: Any, *arguments: Any) -> int:
    self._status = 98
    return 98


@pytest.fixture
def machine(monkeypatch):
    def use(library):
        if library is None:
            monkeypatch.setattr(libraries, "candidates", lambda name: iter(()))
            libraries.library.cache_clear()
            return
        for module in (hiprtc, runtime):
            monkeypatch.setattr(module, "library", lambda name: library)

    monkeypatch.setattr(runtime._Module, "_launch", _refuse_launch)
    yield {
        "use": use,
        "compiler": COMPILER,
        "driver": DRIVER,
        "launch": lambda artifact: runtime._Module(artifact).packed(),
    }
    libraries.library.cache_clear()


@pytest.mark.emulate
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_for_each_code(name, machine, monkeypatch, tmp_path):
    monkeypatch.setenv("TILE_CACHE_DIR", str(tmp_path))
    refuse(getattr(errors, name), PROGRAMS[name], machine)
