"""The conformance suite as a pytest class: a backend's test file subclasses it and says what it supports.

    from tile_core.testing import BackendConformance

    class TestConformance(BackendConformance):
        target = "toy"
        supports = BackendConformance.ALL - {"gemm"}

A program whose needs are not supported is skipped with the need as the reason; a listed expected failure must fail. The
options of `pytest_plugin.py` replace what the class says; a failure ends with the command that repeats it.
"""

from __future__ import annotations

import shlex
from typing import Any, ClassVar

import pytest

from tile_core.jit.artifact import Execution
from tile_core.testing.program import Program
from tile_core.testing.programs import PROGRAMS
from tile_core.testing.run import Run

PLUGIN, SUITE = "tile_core.testing.pytest_plugin", "tile_core.testing.suite"


class BackendConformance:
    """Runs every program on `target`."""

    ALL: ClassVar[frozenset[str]] = frozenset(need for program in PROGRAMS for need in program.needs)

    target: ClassVar[Any] = None
    execution: ClassVar[Execution] = "native"
    device: ClassVar[str] = "cpu"
    supports: ClassVar[frozenset[str]] = ALL
    expected_failures: ClassVar[dict[str, str]] = {}

    @pytest.mark.parametrize("program", PROGRAMS, ids=[program.id for program in PROGRAMS])
    def test_program(self, program: Program, request: pytest.FixtureRequest) -> None:
        """One program on this backend."""
        option = request.config.getoption
        target = option("tile_target", None) or self.target
        if target is None:
            pytest.skip("no target: subclass the class, or give --tile-target")
        missing = program.needs - self.supports
        if missing:
            pytest.skip(f"{target} declares no support for {', '.join(sorted(missing))}")
        if program.id in self.expected_failures:
            reason = self.expected_failures[program.id]
            request.node.add_marker(pytest.mark.xfail(reason=reason, strict=True))
        execution = option("tile_execution", None) or self.execution
        run = Run(target, program.id, execution, option("tile_device", None) or self.device)
        try:
            run.execute(program.body)
        except Exception as error:
            error.add_note(f"repeat it with: {_command(run)}")
            raise


def _command(run: Run) -> str:
    """The command that runs the program of `run` alone, wherever it is called."""
    options = {"target": str(run.target), "execution": run.execution, "device": run.device}
    words = ["python", "-m", "pytest", "-p", PLUGIN, "--pyargs", SUITE, "-k", run.program]
    return shlex.join([*words, *(f"--tile-{name}={value}" for name, value in options.items())])
