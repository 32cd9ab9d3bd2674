"""Compile a C++ source into a shared library with the system's compiler."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tile_core.errors.emulator import EmulatorCompilerError, MissingCompilerError

COMPILERS = ("c++", "g++", "clang++")
# Device code rounds after every operation, wraps integers and views memory under several types.
FLAGS = (
    *("-std=c++17", "-O1", "-fPIC", "-shared", "-fwrapv", "-ffp-contract=off", "-fno-strict-aliasing"),
    *("-Wno-unknown-pragmas", "-Wno-attributes"),
)
LIBRARY = "emulated.so"


def compiler() -> str:
    """The path of the C++ compiler: `CXX`, else the first of `c++`, `g++`, `clang++`.

    Raises:
        MissingCompilerError: there is none.
    """
    named = os.environ.get("CXX")
    for name in (named,) if named else COMPILERS:
        if path := shutil.which(name):
            return path
    wanted = named or ", ".join(COMPILERS)
    raise MissingCompilerError(
        f"emulated execution needs a C++ compiler, and there is none ({wanted}) on the PATH",
        remedy="install one: apt-get install g++, dnf install gcc-c++, or xcode-select --install",
    )


def build_library(source: str, includes: Sequence[Path], flags: Sequence[str] = ()) -> bytes:
    """The shared library made of `source`.

    Raises:
        MissingCompilerError: there is no C++ compiler.
        EmulatorCompilerError: it refused the source; the source is in the exception's notes.
    """
    with tempfile.TemporaryDirectory(prefix="tile-emulator-") as folder:
        path = Path(folder) / "kernel.cpp"
        path.write_text(source, encoding="utf-8")
        search = [part for include in includes for part in ("-I", str(include))]
        command = [compiler(), *FLAGS, *search, *flags, str(path), "-o", str(Path(folder) / LIBRARY)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - an argument list
        if done.returncode:
            first = next((line for line in done.stderr.splitlines() if "error" in line), done.stderr.strip())
            error = EmulatorCompilerError(f"the C++ compiler refused the emulated kernel: {first}")
            error.add_note(source)
            raise error
        return (Path(folder) / LIBRARY).read_bytes()
