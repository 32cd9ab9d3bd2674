"""Loads a compiled kernel into this process."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import tvm_ffi

from tile_toy.compiler import LIBRARY

if TYPE_CHECKING:
    from tile_core.jit.artifact import Artifact, CompileRequest


def load(artifact: Artifact, request: CompileRequest) -> Callable[..., None]:
    """The packed function of a compiled kernel: called with every parameter in order, it checks them and runs."""
    with tempfile.TemporaryDirectory(prefix="tile-toy-") as folder:
        path = Path(folder) / LIBRARY
        path.write_bytes(artifact.files[LIBRARY])
        # Once loaded, the library no longer needs its file.
        module = tvm_ffi.load_module(str(path))
    entry: Callable[..., None] = module[artifact.report["symbol"]]
    return entry
