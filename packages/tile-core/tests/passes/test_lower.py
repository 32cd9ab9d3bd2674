"""One call from program to lowered program: what callers get, and what becomes of a pass that fails."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

import tile_core.language as T
from tile_core.errors import HostAccessError, PassFailedError
from tile_core.passes import lower as module
from tile_core.passes.base import PassContext


@T.prim_func
def kernel(A: T.Tensor((64,), "float32")):
    with T.Kernel(1):
        T.clear(A)


@dataclass(frozen=True)
class Reporting:
    name: ClassVar[str] = "reporting"

    def __call__(self, func: Any, context: PassContext) -> Any:
        context.report["seen"] = dict(context.options)
        return func


@dataclass(frozen=True)
class Failing:
    error: Exception
    name: ClassVar[str] = "failing"

    def __call__(self, func: Any, context: PassContext) -> Any:
        raise self.error


@pytest.fixture
def lower(monkeypatch: pytest.MonkeyPatch, context: PassContext) -> Any:
    backend = SimpleNamespace(name="made-up", capabilities="made:capabilities", op_lowerings={})
    request = SimpleNamespace(target=None, pass_configs={"option": 1})
    monkeypatch.setattr("tile_core.plugins.manager.resolve", lambda _: lambda target: context.capabilities)
    monkeypatch.setattr(module, "default_observers", lambda target: [])

    def run(*passes: Any, observers: Any = ()) -> Any:
        monkeypatch.setattr(module, "build_pipeline", lambda backend, target: passes)
        return module.lower(kernel, request, backend, observers)

    return run


def test_the_report_and_the_options(lower: Any) -> None:
    func, report = lower(Reporting())
    assert func.same_as(kernel)
    assert report == {"seen": {"option": 1}}


def test_observers_see_every_pass(lower: Any) -> None:
    seen: list[str] = []
    pair = (lambda name, func: seen.append(f"before {name}"), lambda name, func: seen.append(f"after {name}"))
    lower(Reporting(), observers=[pair])
    assert seen == ["before reporting", "after reporting"]


def test_a_refusal_passes_through(lower: Any) -> None:
    refusal = HostAccessError("A is used outside")
    with pytest.raises(HostAccessError) as caught:
        lower(Reporting(), Failing(refusal))
    assert caught.value is refusal


@pytest.mark.parametrize("error", [KeyError("x"), AssertionError(), RuntimeError("first\nsecond")])
def test_any_other_error_names_the_pass(lower: Any, error: Exception) -> None:
    with pytest.raises(PassFailedError, match="the pass failing failed: ") as caught:
        lower(Reporting(), Failing(error))
    assert caught.value.__cause__ is error
    assert "second" not in caught.value.message
