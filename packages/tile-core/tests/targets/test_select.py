"""What `target=` accepts, and what `auto` chooses."""

from __future__ import annotations

from typing import Any

import pytest

from tile_core.errors import (
    BackendImportError,
    BackendManifestError,
    BackendNotInstalledError,
    NoTargetError,
    SettingError,
    TargetSpecError,
    UnknownTargetError,
)
from tile_core.settings import settings
from tile_core.targets import Target, select_target


def backend_code(available: bool, priority: int, reason: str = "because") -> str:
    return f"""
from tile_core.plugins import Detection
from tile_core.targets import Target

def detect():
    return Detection(available={available}, reason={reason!r}, priority={priority})

def parse(kind, options):
    return Target(kind, NAME, options)
"""


@pytest.fixture
def machine(install: Any) -> Any:
    """`machine(name=(available, priority), …)` installs a backend each."""

    def build(**backends: tuple[bool, int]) -> None:
        for name, (available, priority) in backends.items():
            extra = f"\nNAME = {name!r}\n" + backend_code(available, priority, f"{name} says so")
            install(f"tile-{name}", name, kinds=(name, f"{name}2"), extra=extra)

    return build


def test_auto_takes_the_best_that_can_run(machine: Any) -> None:
    machine(host=(True, 10), gpu=(True, 100), npu=(False, 200), debugger=(True, -1))
    assert select_target("auto") == Target("gpu", "gpu")
    assert select_target(None) == Target("gpu", "gpu")
    assert select_target({"kind": "auto"}) == Target("gpu", "gpu")


def test_auto_falls_back_by_priority_not_by_name(machine: Any) -> None:
    machine(zhost=(True, 10), agpu=(False, 100), ahost=(True, 5))
    assert select_target().backend == "zhost"


def test_equal_priorities_go_by_the_alphabet(machine: Any) -> None:
    machine(b=(True, 100), a=(True, 100))
    assert select_target().backend == "a"


def test_auto_with_nothing_says_why_each_is_unavailable(machine: Any, install: Any) -> None:
    machine(gpu=(False, 100), debugger=(True, -1))
    install("tile-bad", "bad", "raise RuntimeError('broken')")
    install("tile-one", "same", kinds=("one",))
    install("tile-two", "same", kinds=("two",))
    with pytest.raises(NoTargetError) as caught:
        select_target("auto")
    for words in (
        "gpu: gpu says so",
        "debugger: only when named",
        "bad: failed to import (tile-bad 1.2)",
        "same: claimed",
    ):
        assert words in caught.value.message
    assert "tile-cpu" in caught.value.remedy


def test_auto_with_no_backend_at_all(install: Any) -> None:
    install("tile-hooks", "hooks", "")
    with pytest.raises(NoTargetError, match="no backend is installed"):
        select_target("auto")


def test_a_named_target_needs_no_hardware(machine: Any) -> None:
    machine(gpu=(False, 100))
    expected = Target("gpu2", "gpu", {"arch": "x"})
    assert select_target({"kind": "gpu2", "arch": "x"}) == expected
    assert select_target(str(expected)) == expected
    assert select_target(expected) is expected


def test_the_setting_is_the_default(machine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    machine(host=(True, 10), gpu=(True, 100))
    monkeypatch.setenv("TILE_TARGET", "host")
    assert select_target().backend == "host"
    assert select_target("gpu").backend == "gpu"
    with settings.override(target='{"kind": "gpu", "arch": "y"}'):
        assert select_target().option("arch") == "y"
    with pytest.raises(SettingError), settings.override(target=""):
        pass


@pytest.mark.parametrize(
    "spec",
    ["", "  ", "gpu -arch=x", "-arch=x", 7, b"gpu", ["gpu"], {}, {"arch": "x"}, {"kind": 3}, '{"kind": "gpu"', "{}",
     {"kind": "auto", "arch": "x"}, {"kind": "gpu", "arch": object()}],
)  # fmt: skip
def test_other_forms_are_refused(machine: Any, spec: Any) -> None:
    machine(gpu=(True, 100))
    with pytest.raises(TargetSpecError):
        select_target(spec)


def test_kinds_that_cannot_be_had(machine: Any, install: Any) -> None:
    machine(gpu=(True, 100))
    install("tile-bad", "bad", "raise RuntimeError('broken')")
    with pytest.raises(UnknownTargetError, match="gpux"):
        select_target("gpux")
    with pytest.raises(BackendNotInstalledError):
        select_target("cuda")
    with pytest.raises(BackendImportError):
        select_target("bad")
    with pytest.raises(BackendNotInstalledError):
        select_target(Target("metal", "metal"))


def test_parse_target_has_to_return_its_own_target(install: Any) -> None:
    install("tile-odd", "odd", extra="def parse(kind, options):\n    return kind\n")
    with pytest.raises(BackendManifestError, match="parse_target of backend 'odd'"):
        select_target("odd")
