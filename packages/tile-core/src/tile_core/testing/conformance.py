"""The conformance suite as a pytest class: a backend's test file subclasses it and says what it supports.

    from tile_core.testing import BackendConformance

    class TestConformance(BackendConformance):
        target = "toy"
        supports = BackendConformance.ALL - {"gemm"}

A program whose needs are not supported is skipped with the need as the reason; a listed expected failure must fail.
"""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

from tile_core.jit.artifact import Execution
from tile_core.testing.program import Program
from tile_core.testing.programs import PROGRAMS
from tile_core.testing.run import Run


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
        if self.target is None:
            pytest.skip("the base class has no target; subclass it")
        missing = program.needs - self.supports
        if missing:
            pytest.skip(f"{self.target} declares no support for {', '.join(sorted(missing))}")
        if program.id in self.expected_failures:
            reason = self.expected_failures[program.id]
            request.node.add_marker(pytest.mark.xfail(reason=reason, strict=True))
        Run(self.target, program.id, self.execution, self.device).execute(program.body)
