"""One program for every code of this backend, and for what the dialect does not have yet: its class and its message.

The toolkit and the runtime are stood for by objects that refuse, so that the programs need neither.
"""

from __future__ import annotations

from typing import Any

import pytest

from tile_ascend import bisheng, cann, errors, runtime
from tile_core.errors import backends
from tile_core.testing.codes import Program, inside, refuse

COMPILE = 'tl.compile(kernel, target="ascend")'
UNIMPLEMENTED = Program("import tile_ascend.language as T\n" + inside("T.SimdVF()  # HERE", launch="1"), "SimdVF")
PROGRAMS = {
    "DeviceCompilerError": Program("use(compiler)\n" + inside("A[0] = 1", then=COMPILE), "kernel.asc:1: error: no"),
    "LaunchError": Program(
        "use(driver)\n"
        + inside(
            "A[0] = 2",
            then="""
            made = tl.compile(kernel, target="ascend", execution="emulate")
            launch(made.artifact)(torch.zeros(8, dtype=torch.int32), torch.zeros(8))
            """,
        ),
        "refused kernel: out of luck (98)",
    ),
    "MissingCannError": Program("use(None)\n" + inside("A[0] = 3", then=COMPILE), "bisheng"),
}


class Runtime:
    """A runtime whose functions succeed."""

    def __getattr__(self, name: str) -> Any:
        class Function:
            restype: Any = None

            def __call__(self, *arguments: Any) -> Any:
                return b"out of luck" if name == "aclGetRecentErrMsg" else 0

        return Function()


def _refuse_launch(self: Any, *_arguments: Any) -> int:
    self._status = 98
    return 98


@pytest.fixture
def machine(monkeypatch, tmp_path):
    refusing = tmp_path / cann.COMPILER
    refusing.write_text('#!/bin/sh\necho "kernel.asc:1: error: no" >&2\nexit 1\n')
    refusing.chmod(0o755)

    def use(what):
        if what is None:
            monkeypatch.setattr(cann, "homes", lambda: iter(()))
        elif what == "compiler":
            monkeypatch.setattr(bisheng, "program", lambda name: str(refusing))
        else:
            monkeypatch.setattr(cann, "runtime", Runtime)

    monkeypatch.setattr(runtime._Binary, "_launch", _refuse_launch)
    return {
        "use": use,
        "compiler": "compiler",
        "driver": "driver",
        "launch": lambda artifact: runtime._Binary(artifact).packed(),
    }


@pytest.mark.emulate
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_for_each_code(name, machine, monkeypatch, tmp_path):
    monkeypatch.setenv("TILE_CACHE_DIR", str(tmp_path))
    refuse(getattr(errors, name), PROGRAMS[name], machine)


def test_a_name_that_does_not_exist_yet():
    refuse(backends.DialectNameUnimplementedError, UNIMPLEMENTED)
