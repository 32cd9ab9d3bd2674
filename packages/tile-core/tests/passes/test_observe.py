"""Who sees a pipeline run: plugins' hooks, and the levels of `TILE_DEBUG`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tvm import tirx
from tvm.tirx import stmt as S

from tile_core.passes.observe import observers
from tile_core.passes.pipeline import build_pipeline, drop
from tile_core.plugins import hookimpl, manager
from tile_core.settings import settings
from tile_core.targets import Target, select_target

FUNC = tirx.PrimFunc([], S.Evaluate(tirx.IntImm("int32", 0)))
TARGET = Target("some", "some")

Register = Callable[[object], None]


@pytest.fixture
def register(monkeypatch: pytest.MonkeyPatch) -> Register:
    """`register(plugin)` in a registry of the test's own."""
    registry = manager.load([])
    monkeypatch.setattr(manager, "registry", lambda: registry)

    def add(plugin: object) -> None:
        registry.manager.register(plugin)

    return add


def run(names: tuple[str, ...] = ("first", "second")) -> None:
    pairs = observers(TARGET)
    for name in names:
        for before, _ in pairs:
            before(name, FUNC)
        for _, after in pairs:
            after(name, FUNC)


def test_hooks_see_every_pass_with_its_function_and_target(register: Register) -> None:
    seen: list[Any] = []

    class Plugin:
        @hookimpl
        def tile_before_pass(self, name: str, func: Any, target: Any) -> None:
            seen.append(("before", name, func.same_as(FUNC), target))

        @hookimpl
        def tile_after_pass(self, name: str) -> None:
            seen.append(("after", name))

    register(Plugin())
    run(("only",))
    assert seen == [("before", "only", True, TARGET), ("after", "only")]


@pytest.mark.parametrize(("level", "lines", "programs"), [(0, 0, 0), (1, 0, 0), (2, 2, 0), (3, 2, 2), (4, 2, 2)])
def test_debug_levels(capsys: pytest.CaptureFixture[str], level: int, lines: int, programs: int) -> None:
    with settings.override(debug=level):
        run()
    text = capsys.readouterr().err
    assert text.count(" ms\n") == lines
    assert text.count("@T.prim_func") == programs


def test_a_plugin_edits_the_pipeline_after_the_backend() -> None:
    target = select_target("auto")
    backend = manager.backend(target.backend)
    seen: list[Any] = []

    class Plugin:
        @hookimpl
        def tile_edit_pipeline(self, target: Any, pipeline: Any) -> Any:
            seen.append((target, pipeline))
            return (drop("simplify"),)

    unedited = [step.name for step in build_pipeline(backend, target)]
    registry = manager.registry()
    plugin = Plugin()
    registry.manager.register(plugin)
    try:
        edited = [step.name for step in build_pipeline(backend, target)]
    finally:
        registry.manager.unregister(plugin)
    assert edited == [name for name in unedited if name != "simplify"]
    ((given, pipeline),) = seen
    assert given == target
    assert [step.name for step in pipeline] == unedited
