"""Compile a kernel's source into a shared library with the system's compiler.

Most of the emulator does not depend on the kernel. It is compiled once, kept in the kernel cache like any other
artifact and linked into every kernel, so that a kernel costs the reading of a header and its own code. Reading the
header is half of that for a small kernel: a process that builds many kernels precompiles it.
"""

from __future__ import annotations

import functools
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
import threading
from collections import Counter
from collections.abc import Sequence
from importlib import resources
from pathlib import Path

from tile_core.device.refusal import first_error
from tile_core.errors.emulator import EmulatorCompilerError, MissingCompilerError
from tile_core.jit.artifact import Artifact
from tile_core.jit.compile import disk_cache

COMPILERS = ("c++", "g++", "clang++")
COMMON = ("-std=c++17", "-fPIC", "-Wno-unknown-pragmas", "-Wno-attributes")
# Device code rounds after every operation and views memory under several types. Signed integers that overflow are as
# undefined as for a device's compiler: printed code does without.
# GCC 12 takes `0.0f - (float)i` for `-(float)i`, which is -0 at 0, unless it is to mind the rounding.
KERNEL = ("-O1", "-ffp-contract=off", "-frounding-math", "-fno-strict-aliasing")
# What is undefined calls a function of `source/undefined.cpp`. A shift of a negative number to the left is not: C++20
# defines it, as every compiler does.
CHECKED = ("-fsanitize=signed-integer-overflow,shift-exponent", "-fno-sanitize-recover=all")
RUNTIME = ("-O2",)
LIBRARY = "emulated.so"
PRECOMPILE_AFTER = 4
"""How many kernels of a process read a header before it is precompiled, which costs about as much as they did."""
_OBJECT = "emulator.o"
# How GCC and Clang say that nothing has this name.
_UNKNOWN = re.compile(
    r"'(\w+)' was not declared|undeclared identifier '(\w+)'|unknown type name '(\w+)'|'(\w+)' does not name a type"
    r"|no arguments to '(\w+)'"
)


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


def folder() -> Path:
    """Where the emulator's own headers and sources are."""
    return Path(str(resources.files("tile_core.emulator")))


def build_library(source: str, header: Path | None = None, *, checked: bool = False) -> bytes:
    """The shared library made of `source`, a kernel in the language that `header` gives a meaning, and the emulator.

    Args:
        source: C++ behind the header, which it need not include.
        header: a backend's header over `tile_emulator.h`, which is the default.
        checked: whether the kernel stops where it computes what C leaves undefined.

    Raises:
        MissingCompilerError: there is no C++ compiler.
        EmulatorCompilerError: it refused the source; the source is in the exception's notes.
    """
    program = compiler()
    runtime = _runtime_object(program)
    header = header or folder() / "include" / "tile_emulator.h"
    command = _command(program, header, checked)
    first = _headers(os.getpid()).get(command, header)
    with tempfile.TemporaryDirectory(prefix="tile-emulator-") as name:
        work = Path(name)
        kernel, made, library = work / "kernel.cpp", work / _OBJECT, work / LIBRARY
        kernel.write_text(source, encoding="utf-8")
        made.write_bytes(runtime)
        linked = ["-shared", str(made), "-o", str(library)]
        if not checked:
            _run([*command, "-include", str(first), str(kernel), *linked], source, header.parent)
            return library.read_bytes()
        # Linked with the options of the checks, it would need the compiler's library for them.
        compiled = work / "kernel.o"
        _run([*command, "-include", str(first), "-c", str(kernel), "-o", str(compiled)], source, header.parent)
        _run([program, str(compiled), *linked], source, header.parent)
        return library.read_bytes()


def _command(program: str, header: Path, checked: bool) -> tuple[str, ...]:
    """How the compiler is called for kernels that include `header`, and for the header itself."""
    paths = [part for include in (folder() / "include", header.parent) for part in ("-I", str(include))]
    return (program, *COMMON, *KERNEL, *(CHECKED if checked else ()), *paths)


class _Headers:
    """The precompiled headers of this process, in a directory that goes with it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._uses: Counter[tuple[str, ...]] = Counter()
        self._place = tempfile.TemporaryDirectory(prefix="tile-emulator-", ignore_cleanup_errors=True)

    def get(self, command: tuple[str, ...], header: Path) -> Path:
        """The file to include for a header: itself, or one beside which lies what GCC and Clang take for it."""
        key = (*command, str(header))
        file = Path(self._place.name, hashlib.sha256(repr(key).encode()).hexdigest()[:16], header.name)
        with self._lock:
            self._uses[key] += 1
            if self._uses[key] > PRECOMPILE_AFTER and not file.exists():
                text = f'#include "{header}"\n'
                file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                file.write_text(text, encoding="utf-8")
                made = ["-x", "c++-header", str(file), "-o", f"{file}.gch"]
                _run([*command, *made], text, header.parent)
            return file if file.exists() else header


@functools.cache
def _headers(_process: int) -> _Headers:
    """Those of a process: a child made by a fork must not remove its parent's when it ends."""
    return _Headers()


def _runtime_object(program: str) -> bytes:
    """The part of the emulator that does not depend on the kernel, as an object file."""
    key = _runtime_key(program)
    disk = disk_cache()
    stored = None if disk is None else disk.get(key)
    if stored is not None:
        return stored.files[_OBJECT]
    made = _compile_runtime(program, key)
    if disk is not None:
        disk.put(key, Artifact({_OBJECT: made}))
    return made


@functools.cache
def _runtime_key(program: str) -> str:
    """A digest of sources and compiler: its path, size and time of change stand for its version."""
    status = Path(program).resolve().stat()
    digest = hashlib.sha256(repr((program, status.st_size, status.st_mtime_ns, COMMON, RUNTIME)).encode())
    for path in sorted((*folder().glob("include/*.h"), *folder().glob("source/*"))):
        digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()


@functools.cache
def _compile_runtime(program: str, _key: str) -> bytes:
    with tempfile.TemporaryDirectory(prefix="tile-emulator-") as name:
        main, made = Path(name) / "emulator.cpp", Path(name) / _OBJECT
        text = "".join(f'#include "{path.name}"\n' for path in sorted(folder().glob("source/*.cpp")))
        main.write_text(text, encoding="utf-8")
        paths = [part for place in ("include", "source") for part in ("-I", str(folder() / place))]
        _run([program, *COMMON, *RUNTIME, *paths, "-c", str(main), "-o", str(made)], text, folder())
        return made.read_bytes()


def _run(command: Sequence[str], source: str, headers: Path) -> None:
    environment = {**os.environ, "LC_ALL": "C"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)  # noqa: S603 - a list
    if done.returncode == 0:
        return
    error = _refusal(done.stderr, headers)
    error.add_note(done.stderr)
    error.add_note(source)
    raise error


def _refusal(complaints: str, headers: Path) -> EmulatorCompilerError:
    missing = _UNKNOWN.search(complaints)
    if missing is None:
        return EmulatorCompilerError(
            f"the C++ compiler refused the emulated kernel: {first_error(complaints)}",
            remedy="the source is in the notes of this error; report it with the kernel",
        )
    name = next(group for group in missing.groups() if group)
    return EmulatorCompilerError(
        f"a printed kernel uses {name!r}, which has no meaning in the emulator",
        remedy=f"define it in a header of {headers}, over the names of tile_emulator.h",
    )
