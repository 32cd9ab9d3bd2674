"""Building emulated kernels: what is said when it cannot be done, and what is kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tile_core.emulator import build
from tile_core.errors import EmulatorCompilerError, MissingCompilerError
from tile_core.settings import settings


def test_without_a_compiler_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setattr(build.shutil, "which", lambda name: None)
    with pytest.raises(MissingCompilerError, match=r"TILE-E0651.*c\+\+, g\+\+, clang\+\+") as raised:
        build.build_library("")
    assert raised.value.kind == "environment"
    assert "apt-get install g++" in raised.value.remedy


def test_a_compiler_named_by_the_user_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(MissingCompilerError, match="no-such-compiler"):
        build.build_library("")


@pytest.mark.emulate
def test_a_name_without_a_meaning_says_where_to_add_it(tmp_path: Path) -> None:
    header = tmp_path / "vendor_emulator.h"
    header.write_text('#include "tile_emulator.h"\n')
    source = "int f() { return __vendor_intrinsic(3); }"
    with pytest.raises(EmulatorCompilerError, match="TILE-E0652.*'__vendor_intrinsic'.*no meaning") as raised:
        build.build_library(source, header)
    assert str(tmp_path) in raised.value.remedy
    assert source in raised.value.__notes__


@pytest.mark.emulate
def test_any_other_complaint_is_shown() -> None:
    with pytest.raises(EmulatorCompilerError, match="refused the emulated kernel.*error"):
        build.build_library("int f() { return }")


@pytest.mark.emulate
def test_the_common_part_is_compiled_once_and_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    compiled: list[str] = []
    original = build._run

    def run(command: Any, *arguments: Any) -> None:
        compiled.append("common" if "-c" in command else "kernel")
        original(command, *arguments)

    monkeypatch.setattr(build, "_run", run)
    source = 'extern "C" int answer() { return 42; }'
    with settings.override(cache_dir=tmp_path, cache=True):
        for _ in range(2):
            build._compile_runtime.cache_clear()
            assert build.build_library(source)
    assert compiled == ["common", "kernel", "kernel"]


@pytest.mark.emulate
def test_the_header_of_many_kernels_is_precompiled(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    source = 'extern "C" int answer() { return given(); }'
    commands: list[Any] = []
    original = build._run

    def run(command: Any, *arguments: Any) -> None:
        commands.append(command)
        original(command, *arguments)

    header = tmp_path / "vendor_emulator.h"
    header.write_text('#include "tile_emulator.h"\ninline int given() { return 42; }\n')
    monkeypatch.setattr(build, "_run", run)
    libraries = [build.build_library(source, header) for _ in range(build.PRECOMPILE_AFTER + 2)]
    kinds = ["header" if "c++-header" in command else "kernel" for command in commands]
    assert kinds == [*["kernel"] * build.PRECOMPILE_AFTER, "header", "kernel", "kernel"]
    included = [Path(command[command.index("-include") + 1]) for command in commands if "-include" in command]
    assert included[: build.PRECOMPILE_AFTER] == [header] * build.PRECOMPILE_AFTER
    assert all(Path(f"{path}.gch").exists() for path in included[build.PRECOMPILE_AFTER :])
    assert len(set(libraries)) == 1
