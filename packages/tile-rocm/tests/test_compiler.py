"""Compiling is refused with a code, before anything runs."""

from __future__ import annotations

import pytest

from tile_core.errors import CodeGenerationUnimplementedError
from tile_core.jit.artifact import Artifact, CompileRequest
from tile_core.targets import select_target
from tile_rocm.compiler import compile_kernel
from tile_rocm.runtime import load


def check(error: CodeGenerationUnimplementedError) -> None:
    """The refusal names backend and target, says that it is for now, and what works."""
    assert error.kind == "unimplemented"
    assert "tile-rocm" in error.message
    assert '"arch": "gfx942"' in error.message
    assert "cpu" in error.remedy


def test_compiling_is_refused() -> None:
    with pytest.raises(CodeGenerationUnimplementedError, match="TILE-E0590") as raised:
        compile_kernel(None, CompileRequest(select_target("rocm")))  # type: ignore[arg-type]
    check(raised.value)


def test_loading_an_artifact_is_refused() -> None:
    with pytest.raises(CodeGenerationUnimplementedError, match="TILE-E0590") as raised:
        load(Artifact({}), CompileRequest(select_target("rocm")))
    check(raised.value)
