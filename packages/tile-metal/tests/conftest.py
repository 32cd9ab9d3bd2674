"""Clang 19 in place of Metal's compiler, for tests that print sources."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tile_metal.exchanges import COUNTED

CLANG = next((path for name in ("clang-19", "clang++-19") if (path := shutil.which(name))), None)
OPTIONS = ("-x", "c++", "-std=c++14", "-fsyntax-only", "-Werror", "-Wno-unknown-attributes")
HEADERS = Path(__file__).parent / "address_spaces"
LAMBDA = re.compile(r"\[[&=]?\] ?[({]")


@pytest.fixture
def read(tmp_path: Path) -> Callable[[str], None]:
    """Lets Clang read a source with Metal's address spaces as its own."""
    if CLANG is None:
        pytest.skip("there is no clang-19: apt-get install clang-19")

    def check(source: str) -> None:
        assert source.isascii()
        # They came with version 3.2.
        assert not LAMBDA.search(source), source
        path = tmp_path / "kernel.metal"
        # Clang has no automatic variables in another address space.
        path.write_text(source.replace(COUNTED, f"extern {COUNTED}"), "utf-8")
        command = [str(CLANG), *OPTIONS, "-I", str(HEADERS), str(path)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{done.stderr}\n{source}"

    return check
