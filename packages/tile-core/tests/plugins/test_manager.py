"""Discovery: one plugin's fault stays with that plugin, and every failure says which distribution it is."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from tile_core.errors import (
    BackendAttributeError,
    BackendClashError,
    BackendImportError,
    BackendNotInstalledError,
    HookResultError,
    UnknownTargetError,
)
from tile_core.plugins import manager


def test_loaded(install: Any) -> None:
    install("tile-one", "one", kinds=("one", "uno"))
    install("tile-two", "two")
    assert sorted(manager.backends()) == ["one", "two"]
    assert manager.backend("one").target_kinds == ("one", "uno")
    assert manager.registry().backend_of_kind("uno").name == "one"


def test_a_broken_plugin_does_not_touch_others(install: Any) -> None:
    install("tile-bad", "bad", "import a_module_that_is_not_there")
    install("tile-good", "good")
    assert list(manager.backends()) == ["good"]
    with pytest.raises(BackendImportError) as caught:
        manager.backend("bad")
    assert "tile-bad 1.2" in caught.value.message
    assert "a_module_that_is_not_there" in caught.value.message
    assert isinstance(caught.value.__cause__, ModuleNotFoundError)
    (failure,) = manager.registry().failures()
    assert "tile_bad_plugin.py" in failure.traceback
    with pytest.raises(BackendImportError):
        manager.registry().backend_of_kind("bad")


def test_strict_raises_at_once(install: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    install("tile-bad", "bad", "raise RuntimeError('no driver')")
    install("tile-good", "good")
    monkeypatch.setenv("TILE_PLUGINS_STRICT", "1")
    manager.refresh()
    with pytest.raises(BackendImportError, match=r"tile-bad 1\.2"):
        manager.backend("good")


@pytest.mark.parametrize("strict", [False, True])
def test_a_name_claimed_twice_names_both_distributions(
    install: Any, monkeypatch: pytest.MonkeyPatch, strict: bool
) -> None:
    install("tile-first", "same", kinds=("same",))
    install("tile-second", "same", kinds=("other",))
    install("tile-good", "good")
    if strict:
        monkeypatch.setenv("TILE_PLUGINS_STRICT", "1")
        manager.refresh()
    else:
        assert list(manager.backends()) == ["good"]
    with pytest.raises(BackendClashError) as caught:
        manager.backend("good" if strict else "same")
    assert "tile-first 1.2" in caught.value.message
    assert "tile-second 1.2" in caught.value.message


def test_a_target_kind_claimed_twice_names_both_distributions(install: Any) -> None:
    install("tile-first", "first", kinds=("gpu", "first"))
    install("tile-second", "second", kinds=("gpu",))
    with pytest.raises(BackendClashError, match=r"tile-first 1.2.*tile-second 1.2"):
        manager.registry().backend_of_kind("gpu")
    assert not manager.backends()
    assert [error.code for error in manager.registry().clashes()] == ["TILE-E0404"]


def test_not_installed_is_not_failed_to_import(install: Any) -> None:
    install("tile-good", "good")
    with pytest.raises(BackendNotInstalledError) as caught:
        manager.backend("cuda")
    assert "not installed" in caught.value.message
    assert caught.value.remedy == "python -m pip install tile-cuda"
    with pytest.raises(BackendNotInstalledError) as caught:
        manager.registry().backend_of_kind("hip")
    assert caught.value.remedy == "python -m pip install tile-rocm"
    with pytest.raises(BackendNotInstalledError) as caught:
        manager.backend("nonsense")
    assert "pip install" not in caught.value.remedy


def test_an_installed_backend_of_another_kind_that_failed_says_so(install: Any) -> None:
    install("tile-rocm", "rocm", "raise ImportError('libamdhip64')")
    with pytest.raises(BackendImportError, match="libamdhip64"):
        manager.registry().backend_of_kind("hip")


def test_an_unknown_kind_lists_what_exists(install: Any) -> None:
    install("tile-good", "good", kinds=("good", "fine"))
    install("tile-bad", "bad", "import a_module_that_is_not_there")
    with pytest.raises(UnknownTargetError) as caught:
        manager.registry().backend_of_kind("gooood")
    assert "fine, good" in caught.value.remedy
    assert "bad (tile-bad 1.2) failed to import" in caught.value.remedy


def test_the_entry_point_has_the_name_of_the_backend(install: Any) -> None:
    install("tile-good", "good")
    install("tile-odd", "odd", (manager_source := _manifest("even", "tile_odd_plugin")))
    assert "even" in manager_source
    with pytest.raises(BackendImportError, match="'even' under the entry point 'odd'"):
        manager.backend("odd")


def _manifest(name: str, module: str) -> str:
    return f"""
    from tile_core.plugins import Backend, hookimpl

    @hookimpl
    def tile_register_backend():
        return Backend(
            name="{name}", target_kinds=("{name}",), dialect="{module}", detect="{module}:d", parse_target="{module}:p",
            capabilities="{module}:c", compiler="{module}:c", runtime="{module}:r",
        )
    """


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        ("return 42", "expected a Backend"),
        ("return Backend(name='x')", "missing"),
        ("raise RuntimeError('broken inside')", "broken inside"),
    ],
)
def test_a_wrong_hook_is_a_failure_of_that_plugin(install: Any, body: str, complaint: str) -> None:
    source = f"from tile_core.plugins import *\n@hookimpl\ndef tile_register_backend():\n    {body}\n"
    install("tile-odd", "odd", source)
    install("tile-good", "good")
    assert list(manager.backends()) == ["good"]
    with pytest.raises(BackendImportError, match=complaint):
        manager.backend("odd")


def test_an_unknown_hook_is_a_failure_of_that_plugin(install: Any) -> None:
    source = "from tile_core.plugins import hookimpl\n@hookimpl\ndef tile_regster_backend():\n    return None\n"
    install("tile-typo", "typo", source)
    install("tile-good", "good")
    with pytest.raises(BackendImportError, match="tile_regster_backend"):
        manager.backend("typo")
    assert list(manager.backends()) == ["good"]
    assert not manager.registry().manager.has_plugin("tile-typo:typo")


def test_hooks_only_plugins_run_in_alphabetical_order(install: Any) -> None:
    for name in ("zeta", "alpha", "mid"):
        edit = f"type('Edit', (), {{'apply': lambda self, pipeline: pipeline, 'name': {name!r}}})()"
        source = (
            "from tile_core.plugins import hookimpl\n"
            f"@hookimpl\ndef tile_edit_pipeline(target, pipeline):\n    return ({edit},)\n"
        )
        install(f"tile-{name}", name, source)
    assert [edit.name for edit in manager.plugin_edits(None, ())] == ["alpha", "mid", "zeta"]  # type: ignore[arg-type]
    assert not manager.backends()
    with pytest.raises(BackendNotInstalledError):
        manager.backend("alpha")


def test_edits_of_the_wrong_type_are_refused(install: Any) -> None:
    source = (
        "from tile_core.plugins import hookimpl\n@hookimpl\ndef tile_edit_pipeline(pipeline):\n    return ['drop']\n"
    )
    install("tile-odd", "odd", source)
    with pytest.raises(HookResultError, match="tile_edit_pipeline"):
        manager.plugin_edits(None, ())  # type: ignore[arg-type]


def test_resolve_names_what_is_missing() -> None:
    with pytest.raises(BackendAttributeError, match="no_such_module"):
        manager.resolve("no_such_module:thing")
    with pytest.raises(BackendAttributeError, match="'math:no_such_thing'"):
        manager.resolve("math:no_such_thing")


def test_detect_that_fails_is_a_reason(install: Any) -> None:
    install("tile-good", "good", extra="def detect():\n    raise OSError('libdriver.so')\n")
    install("tile-odd", "odd", extra="def detect():\n    return True\n")
    assert manager.detection("good").reason == "detection failed: OSError: libdriver.so"
    assert not manager.detection("odd").available
    assert "expected Detection" in manager.detection("odd").reason
    assert "not installed" in manager.detection("absent").reason


def test_every_known_backend_has_a_distribution() -> None:
    known = manager.known_backends()
    assert known["cpu"] == "tile-cpu"
    assert all(name.startswith("tile-") for name in known.values())


def test_discovery_of_the_real_plugins_is_light() -> None:
    code = (
        "import sys, tile_core.plugins.manager as m; m.registry();"
        "print(sorted({'tvm', 'torch', 'numpy'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
