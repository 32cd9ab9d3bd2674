"""Compile Ascend C to a binary of an AI core with the CANN toolkit's compiler and linker."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tile_ascend.cann import COMPILER, LINKER, includes, program
from tile_ascend.errors import DeviceCompilerError
from tile_core.device.refusal import refusal

OPTIONS = ("-xasc", "-O2", "-fPIC", "-std=c++17", "--cce-aicore-only", "-ffp-contract=off")
LINKING = ("-m", "aicorelinux", "-Ttext=0", "-static")


def compile_binary(source: str, architecture: str, name: str, flags: Sequence[str] = ()) -> bytes:
    """The binary of an Ascend C source for one NPU architecture such as `dav-3510`.

    Raises:
        MissingCannError: compiler or linker is not to be found.
        DeviceCompilerError: one of them refused; log and source are in the exception's notes.
    """
    compiler, linker = program(COMPILER), program(LINKER)
    with tempfile.TemporaryDirectory(prefix="tile-ascend-") as folder:
        text, compiled, linked = (Path(folder, f"{name}{suffix}") for suffix in (".asc", ".o", ".bin"))
        text.write_text(source, "utf-8")
        paths = [f"-I{path}" for path in includes()]
        options = [*OPTIONS, f"--npu-arch={architecture}", *paths, *flags]
        _run([compiler, *options, "-c", str(text), "-o", str(compiled)], source)
        _run([linker, *LINKING, str(compiled), "-o", str(linked)], source)
        return linked.read_bytes()


def _run(command: list[str], source: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - a list
    if done.returncode == 0:
        return
    raise refusal(DeviceCompilerError, Path(command[0]).name, done.stderr, source)
