"""Load an emulated artifact: the host object with the launch function of the compiled kernels."""

from __future__ import annotations

import ctypes
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from tile_core.device import HOST_OBJECT, SET_LAUNCHER
from tile_core.emulator.build import LIBRARY
from tile_core.errors.emulator import EmulatorRunError

if TYPE_CHECKING:
    from tile_core.jit.artifact import Artifact


class _Launcher(ctypes.Structure):
    """The record that `device/host.py` describes."""

    _fields_ = (("function", ctypes.c_void_p), ("context", ctypes.c_void_p))


_kept: list[object] = []
"""Launch records and libraries live as long as the process: kernels keep their addresses."""


def load_emulated(artifact: Artifact) -> Callable[..., None]:
    """The packed function of an emulated kernel.

    Calling it raises `EmulatorRunError` when the kernel does not finish.
    """
    import tvm_ffi_orcjit

    library = _load_library(artifact.files[LIBRARY])
    module = tvm_ffi_orcjit.default_session().load_module(artifact.files[HOST_OBJECT])
    record = _Launcher(ctypes.cast(library.tile_emulated_launch, ctypes.c_void_p).value, None)
    _kept.append((library, record))
    module[SET_LAUNCHER](ctypes.c_void_p(ctypes.addressof(record)))
    entry = module[str(artifact.report["symbol"])]
    library.tile_emulated_error.restype = ctypes.c_char_p

    def call(*arguments: object) -> None:
        try:
            entry(*arguments)
        except RuntimeError as error:
            text = library.tile_emulated_error().decode()
            if not text:
                raise
            raise EmulatorRunError(text) from error

    return call


def _load_library(content: bytes) -> ctypes.CDLL:
    """The library in this process. Its file is needed only until it is mapped."""
    handle, name = tempfile.mkstemp(prefix="tile-emulated-", suffix=".so")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        return ctypes.CDLL(name, mode=os.RTLD_LOCAL | os.RTLD_NOW)
    finally:
        Path(name).unlink()
