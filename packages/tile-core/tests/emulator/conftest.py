"""The kernels of `kernels.cpp`, compiled once."""

from __future__ import annotations

import ctypes
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tile_core.emulator.build import COMMON, KERNEL, build_library, compiler, folder
from tile_core.settings import settings


class Failure(ctypes.Structure):
    _fields_ = (("fault", ctypes.c_int), ("site", ctypes.c_int), ("text", ctypes.c_char * 2048))


FAULTS = ("none", "limit", "deadlock", "barrier", "bounds", "unwritten", "race", "alignment")


@dataclass
class Outcome:
    fault: str
    site: int
    text: str
    out: Any


@dataclass
class Kernels:
    """Runs a kernel by name."""

    library: ctypes.CDLL

    def __call__(
        self,
        name: str,
        *,
        grid: Sequence[int] = (1, 1, 1),
        block: Sequence[int] = (64, 1, 1),
        warp: int = 32,
        checked: int = 0,
        argument: int = 0,
    ) -> Outcome:
        out = np.full(4096, -1, dtype=np.int64)
        triple = ctypes.c_uint * 3
        address = out.ctypes.data_as(ctypes.POINTER(ctypes.c_int64))
        status = self.library.run(
            name.encode(), triple(*grid), triple(*block), warp, checked, address, ctypes.c_int64(argument)
        )
        assert status in (0, 1), f"there is no kernel {name}"
        failure = self.library.failure().contents
        assert (status == 1) == (failure.fault != 0)
        return Outcome(FAULTS[failure.fault], failure.site, failure.text.decode(), out)


KERNELS = Path(__file__).with_name("kernels.cpp")


def load(path: Path) -> Kernels:
    """The kernels in a shared library."""
    library = ctypes.CDLL(str(path))
    library.failure.restype = ctypes.POINTER(Failure)
    return Kernels(library)


@pytest.fixture(scope="session")
def kernels() -> Kernels:
    with tempfile.TemporaryDirectory() as name, settings.override(cache_dir=Path(name)):
        path = Path(name) / "kernels.so"
        path.write_bytes(build_library(KERNELS.read_text("utf-8")))
        return load(path)


@pytest.fixture(scope="session")
def portable_kernels() -> Kernels:
    """The same with `ucontext` in place of the own switch."""
    with tempfile.TemporaryDirectory() as name:
        main, library = Path(name) / "main.cpp", Path(name) / "portable.so"
        includes = [*sorted((folder() / "source").glob("*.cpp")), KERNELS]
        text = "".join(f'#include "{path}"\n' for path in includes)
        main.write_text(f"#define TILE_USE_UCONTEXT\n{text}", "utf-8")
        paths = [f"-I{folder() / place}" for place in ("include", "source")]
        subprocess.run([compiler(), *COMMON, *KERNEL, *paths, "-shared", str(main), "-o", str(library)], check=True)
        return load(library)
