"""Compiling programs that were written by hand, for the emulator and for a GPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tile_core.jit.artifact import CompileRequest
from tile_cuda import runtime
from tile_cuda.compiler import compile_lowered
from tile_cuda.target import parse_target

Emulate = Callable[..., Callable[..., None]]


@pytest.fixture
def emulate() -> Emulate:
    """From a program to a function that runs it on the CPU, with checks unless `check` is false."""

    def build(program: Any, *, check: bool = True) -> Callable[..., None]:
        request = CompileRequest(
            parse_target("cuda", {"arch": "sm_90"}), {"tile.emulate_check": check}, execution="emulate"
        )
        return runtime.load(compile_lowered(program, request, {}), request)

    return build


@pytest.fixture
def source_for() -> Callable[..., str]:
    """From a program to its source, after NVRTC has compiled it for an architecture."""
    pytest.importorskip("cuda.bindings.nvrtc", reason="NVRTC is not installed")

    def build(program: Any, arch: str = "sm_90") -> str:
        request = CompileRequest(parse_target("cuda", {"arch": arch}))
        return compile_lowered(program, request, {}).kernel_source

    return build
