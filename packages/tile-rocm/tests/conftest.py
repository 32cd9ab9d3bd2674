"""Clang without ROCm: what it makes of printed sources."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

OPTIONS = ("-x", "hip", "--cuda-device-only", "-nogpulib", "-nogpuinc", "-std=c++17", "-O3", "-S")


@pytest.fixture
def assemble(tmp_path: Path) -> Callable[[str, str], str]:
    """From a source and an architecture to assembly."""
    clang = next((path for name in ("clang-19", "clang++-19") if (path := shutil.which(name))), None)
    if clang is None:
        pytest.skip("there is no clang-19: apt-get install clang-19")

    def run(source: str, arch: str) -> str:
        path, made = tmp_path / "kernel.hip", tmp_path / "kernel.s"
        path.write_text(source, "utf-8")
        command = [clang, *OPTIONS, f"--offload-arch={arch}", str(path), "-o", str(made)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{arch}: {done.stderr}\n{source}"
        return made.read_text("utf-8")

    return run
