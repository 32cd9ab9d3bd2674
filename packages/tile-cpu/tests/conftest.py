from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tile_core.testing.scripts import load_script

_KERNELS = Path(__file__).resolve().parents[3] / "benchmarks" / "cpu_kernels.py"


@pytest.fixture(scope="session")
def workloads() -> Any:
    """The programs of `benchmarks/cpu_kernels.py`: what is measured is what is tested."""
    return load_script(_KERNELS)


@pytest.fixture(autouse=True)
def _verified_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every pass of every kernel that a test here compiles leaves a well-formed program."""
    from tile_core.passes import lower, verify

    def observers(_target: Any) -> list[Any]:
        return [(lambda _name, _func: None, verify.verifying)]

    monkeypatch.setattr(lower, "default_observers", observers)


@pytest.fixture(scope="session")
def build() -> Callable[..., Any]:
    """Compile a lowered function for this machine: `build(func)` is callable, `build.module()` the last LLVM module."""
    from tile_core.jit.artifact import CompileRequest
    from tile_cpu.compiler import build_module
    from tile_cpu.target import parse_target

    request = CompileRequest(parse_target("cpu", {}))
    modules: list[Any] = []

    def compiled(func: Any) -> Any:
        modules.append(build_module(func.with_attr("global_symbol", "main"), request))
        return modules[-1]["main"]

    compiled.module = lambda: modules[-1]  # type: ignore[attr-defined]
    return compiled
