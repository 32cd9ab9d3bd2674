from __future__ import annotations

import platform
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


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--cpu-arch armv8-a`: compile what tests compile for "cpu" for a level of `targets.yaml`, emulated if need be."""
    parser.addoption("--cpu-arch", default=None, help="a level of targets.yaml that stands for this machine")


def pytest_configure(config: pytest.Config) -> None:
    """Give `--cpu-arch` its meaning for this process; a test that says which level it means keeps that."""
    arch = config.getoption("cpu_arch")
    if arch is None:
        return
    from tile_cpu import emulator, target

    target.DEFAULT = arch
    emulator.wanted = lambda request: bool(target.missing_here(request.target))


@pytest.fixture(autouse=True)
def _verified_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every pass of every kernel that a test here compiles leaves a well-formed program."""
    from tile_core.passes import lower, verify

    def observers(_target: Any) -> list[Any]:
        return [(lambda _name, _func: None, verify.verifying)]

    monkeypatch.setattr(lower, "default_observers", observers)


@pytest.fixture
def level(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], dict[str, str]]:
    """The target for a level of `targets.yaml`, which runs here or emulated; where it can do neither, a skip."""
    from tile_cpu.emulator import missing_tools
    from tile_cpu.target import missing_here, parse_target

    def target_of(arch: str) -> dict[str, str]:
        spec = {"kind": "cpu", "arch": arch}
        target = parse_target("cpu", {"arch": arch})
        missing = missing_here(target)
        if missing and platform.machine() not in str(target.option("triple")):
            missing = (tools := missing_tools(target)) and f"there is no {tools}"
        if missing:
            pytest.skip(f"code for {arch} does not run here: {missing}")
        monkeypatch.setenv("TILE_EXECUTION", "emulate")
        return spec

    return target_of


@pytest.fixture(scope="session")
def build() -> Callable[..., Any]:
    """Compile a lowered function for this machine: `build(func)` is callable, `build.module()` the last LLVM module."""
    from tile_core.jit.artifact import Artifact, CompileRequest
    from tile_core.jit.objects import object_bytes
    from tile_cpu import compiler, emulator
    from tile_cpu.target import parse_target

    request = CompileRequest(parse_target("cpu", {}))
    modules: list[Any] = []

    def compiled(func: Any) -> Any:
        module = compiler.build_module(func.with_attr("global_symbol", "main"), request)
        modules.append(module)
        if not emulator.wanted(request):
            return module["main"]
        pool = compiler.pool_object(request.target)
        files = {compiler.KERNEL_OBJECT: object_bytes(module), compiler.POOL_OBJECT: pool}
        return emulator.load_emulated(Artifact(files, report={"symbol": "main"}), request, 1)

    compiled.module = lambda: modules[-1]  # type: ignore[attr-defined]
    return compiled
