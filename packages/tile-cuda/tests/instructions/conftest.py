"""Running and compiling hand-written programs of one thread as CUDA."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import tile_cuda.emulator
from tile_core.emulator import EmulatedLanguage
from tile_core.testing import thread_program
from tile_core.testing.thread_program import ThreadProgram
from tile_cuda.printer import CUDA, EMULATED

INCLUDE = Path(tile_cuda.emulator.__path__[0]) / "include"


@pytest.fixture
def emulate() -> Callable[..., None]:
    """Runs programs in the emulator, with checks on unless `check=False`."""
    language = EmulatedLanguage(EMULATED, "cuda_emulator.h", INCLUDE, 32)

    def run(*programs: ThreadProgram, check: bool = True) -> None:
        thread_program.emulate(language, *programs, check=check)

    return run


@pytest.fixture
def assemble(tmp_path: Path) -> Callable[..., str]:
    """Compiles the printed form of programs for an architecture: what ptxas says of registers, spills and more."""
    nvcc = shutil.which("nvcc")
    if nvcc is None:
        pytest.skip("the CUDA toolkit is not installed")

    def run(arch: str, *programs: ThreadProgram) -> str:
        path = tmp_path / "kernel.cu"
        path.write_text(thread_program.source(CUDA, *programs), "utf-8")
        command = [nvcc, f"-arch={arch}", "-std=c++17", "-cubin", "-Xptxas=-v", "-o", str(tmp_path / "o"), str(path)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stderr

    return run
