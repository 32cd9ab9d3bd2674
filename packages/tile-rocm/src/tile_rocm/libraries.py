"""The two libraries of ROCm that this backend uses, through ctypes: nothing has to be built against ROCm.

A ROCm build of torch brings both, and its copies come first: two copies of the runtime in one process do not share
streams.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import functools
import importlib.util
import os
from collections.abc import Iterator
from pathlib import Path

from tile_rocm.errors import MissingRocmError

RUNTIME, COMPILER = "amdhip64", "hiprtc"


def candidates(name: str) -> Iterator[str]:
    """Where the library `name` may be: torch's directory, `ROCM_PATH`, what the loader knows."""
    spec = importlib.util.find_spec("torch")
    beside_torch = (spec.submodule_search_locations if spec else None) or ()
    rocm = os.environ.get("ROCM_PATH", "/opt/rocm")
    for place in (Path(location) / "lib" for location in (*beside_torch, rocm)):
        yield from map(str, sorted(place.glob(f"lib{name}.so*")))
    if found := ctypes.util.find_library(name):
        yield found


@functools.cache
def library(name: str) -> ctypes.CDLL:
    """The library `name`.

    Raises:
        MissingRocmError: it is not to be found, or cannot be loaded.
    """
    for path in candidates(name):
        try:
            return ctypes.CDLL(path)
        except OSError:
            continue
    raise MissingRocmError(
        f"lib{name}.so was not found, neither beside torch nor under ROCM_PATH or /opt/rocm",
        remedy='install a ROCm build of torch, or run on the host: execution="emulate"',
    )
