"""Which candidate won, kept in the cache directory.

A choice is found again by the keys of all its candidates' kernels, which are made of their IR, options, target and
versions, so it cannot be stale; and it is only a hint: the winner is measured and checked again. What is stored is one
number.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import tempfile
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

from tile_core.settings import settings

_FOLDER = "autotune"


def choice_key(kernels: Sequence[str], inputs: Sequence[Any], device: str) -> str:
    """The key of a choice among kernels, given by their keys, for inputs of these shapes on this machine."""
    machine = [platform.node(), platform.machine(), os.cpu_count(), settings.num_threads, device]
    shapes = [[str(getattr(value, "shape", "")), str(getattr(value, "dtype", type(value)))] for value in inputs]
    return sha256(json.dumps([list(kernels), shapes, machine]).encode()).hexdigest()


def _path(key: str) -> Path | None:
    kept = settings.cache and settings.autotune_cache
    return settings.cache_dir / _FOLDER / f"{key}.json" if kept else None


def read_choice(key: str) -> str | None:
    """The key of the kernel that won, `None` where nothing is known."""
    path = _path(key)
    with contextlib.suppress(OSError, ValueError, TypeError, KeyError):
        if path is not None:
            return str(json.loads(path.read_text("utf-8"))["kernel"])
    return None


def write_choice(key: str, kernel: str) -> None:
    """Keep the key of the kernel that won. A cache that cannot be written is not used."""
    path = _path(key)
    if path is None:
        return
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=".")
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump({"kernel": kernel}, file)
        Path(name).replace(path)
