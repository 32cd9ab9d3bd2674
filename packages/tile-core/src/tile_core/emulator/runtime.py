"""Load an emulated artifact: the host object with the launch function of the compiled kernels."""

from __future__ import annotations

import ctypes
import json
import os
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tile_core.device import HOST_OBJECT, SET_LAUNCHER
from tile_core.emulator.artifact import SITES
from tile_core.emulator.build import LIBRARY
from tile_core.errors import emulator as errors
from tile_core.errors.base import SourceSpan, TileError
from tile_core.errors.device import DescriptorError
from tile_core.errors.interpreter import DeviceAssertError
from tile_core.ir.asserts import ASSERTION_REMEDY
from tile_core.jit.objects import load_object

if TYPE_CHECKING:
    from tile_core.jit.artifact import Artifact


class _Launcher(ctypes.Structure):
    """The record that `device/host.py` describes."""

    _fields_ = (("function", ctypes.c_void_p), ("context", ctypes.c_void_p), ("describe", ctypes.c_void_p))


class _Failure(ctypes.Structure):
    """`tile::Failure` of `tile_emulator.h`."""

    _fields_ = (
        ("fault", ctypes.c_int),
        ("site", ctypes.c_int),
        ("text", ctypes.c_char * 2048),
    )


_FAULTS: Mapping[int, tuple[type[TileError], str]] = {
    1: (errors.EmulatorRunError, "use fewer threads or smaller tiles in a block"),
    2: (errors.EmulatedDeadlockError, "let every thread reach what others wait for"),
    3: (errors.EmulatedBarrierError, "move the barrier to where all threads of the block pass"),
    4: (errors.EmulatedBoundsError, "correct the index, or guard the access"),
    5: (errors.EmulatedUnwrittenError, "write the element before, e.g. with T.clear or T.fill"),
    6: (errors.EmulatedRaceError, "put a barrier between the two, or use an atomic operation"),
    7: (errors.EmulatedAlignmentError, "report it with the kernel, unless it moves vectors of its own"),
    8: (errors.EmulatedInstructionError, "let all threads of the group reach it with the same operands"),
    9: (
        errors.EmulatedCopyError,
        "initialise the barrier, expect what is copied, begin where a copy can",
    ),
    10: (errors.EmulatedFenceError, "put a fence between what the threads did and the barrier before the copy"),
    12: (DeviceAssertError, ASSERTION_REMEDY),
    13: (errors.EmulatedUndefinedError, "report it with the kernel, unless it has source of its own"),
}
"""Error and remedy for each `tile::Fault` of a run."""
_DESCRIPTOR = 11
"""`tile::Fault::kDescriptor`, which host code meets before a run."""

_kept: list[object] = []
"""Launch records and libraries live as long as the process: kernels keep their addresses."""


def load_emulated(artifact: Artifact) -> Callable[..., None]:
    """The packed function of an emulated kernel.

    Calling it raises one of the errors of `errors/emulator.py` when the kernel does not finish or a check fails.
    """
    library = _load_library(artifact.files[LIBRARY])
    module = load_object(artifact.files[HOST_OBJECT])
    launch, describe = (_address(library, f"tile_emulated_{name}") for name in ("launch", "describe"))
    record = _Launcher(launch, None, describe)
    _kept.append((library, record))
    module[SET_LAUNCHER](ctypes.c_void_p(ctypes.addressof(record)))
    entry = module[str(artifact.report["symbol"])]
    library.tile_emulated_failure.restype = ctypes.POINTER(_Failure)
    begin = library.tile_emulated_begin if hasattr(library, "tile_emulated_begin") else None
    failure: _Failure = library.tile_emulated_failure().contents
    spans: list[list[Any] | None] = json.loads(artifact.files.get(SITES, b"[]"))

    def explain() -> str:
        if failure.fault != _DESCRIPTOR:
            return ""
        failure.fault = 0
        return failure.text.decode(errors="replace")

    DescriptorError.explanations.append(explain)

    def call(*arguments: object) -> None:
        failure.fault = 0
        if begin is not None:
            begin()
        try:
            entry(*arguments)
        except RuntimeError as error:
            if not failure.fault:
                raise
            raise _error(failure, spans) from error

    return call


def _error(failure: _Failure, spans: list[list[Any] | None]) -> TileError:
    kind, remedy = _FAULTS[failure.fault]
    span = spans[failure.site] if 0 <= failure.site < len(spans) else None
    text = failure.text.decode(errors="replace")
    return kind(text, remedy=remedy, span=None if span is None else SourceSpan(*span))


def _address(library: ctypes.CDLL, name: str) -> int | None:
    """The address of a function, `None` where the library lacks it."""
    return ctypes.cast(getattr(library, name), ctypes.c_void_p).value if hasattr(library, name) else None


def _load_library(content: bytes) -> ctypes.CDLL:
    """The library in this process. Its file is needed only until it is mapped."""
    handle, name = tempfile.mkstemp(prefix="tile-emulated-", suffix=".so")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        return ctypes.CDLL(name, mode=os.RTLD_LOCAL | os.RTLD_NOW)
    finally:
        Path(name).unlink()
