"""Running and compiling hand-written programs of one thread as CUDA."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import tile_cuda.emulator
from tile_core.emulator import EmulatedLanguage
from tile_core.testing import thread_program
from tile_core.testing.thread_program import ThreadProgram
from tile_cuda.nvrtc import compile_source
from tile_cuda.printer import CUDA

INCLUDE = Path(tile_cuda.emulator.__path__[0]) / "include"


@pytest.fixture
def emulate() -> Callable[..., None]:
    """Runs programs in the emulator, with checks on unless `check=False`."""
    language = EmulatedLanguage(CUDA, "cuda_emulator.h", INCLUDE, 32)

    def run(*programs: ThreadProgram, check: bool = True) -> None:
        thread_program.emulate(language, *programs, check=check)

    return run


@pytest.fixture
def assemble() -> Callable[..., str]:
    """Compiles the printed form of programs for an architecture: what ptxas says of registers, spills and more."""
    pytest.importorskip("cuda.bindings.nvrtc", reason="NVRTC is not installed")

    def run(arch: str, *programs: ThreadProgram) -> str:
        text = thread_program.source(CUDA, *programs)
        return compile_source(text, arch, "main", ["--ptxas-options=-v"]).log

    return run
