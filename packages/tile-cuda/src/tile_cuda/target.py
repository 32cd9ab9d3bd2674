"""CUDA targets: which architectures there are, what each can do, and what hardware this machine has."""

from __future__ import annotations

import ctypes
import functools
import sys
from collections.abc import Mapping
from typing import Any

from tile_core.errors import TargetSpecError
from tile_core.plugins import Detection
from tile_core.targets import Capabilities, Target
from tile_core.targets.table import TargetTable, load_table

_OPTIONS = ("arch",)


@functools.cache
def table() -> TargetTable:
    """The architectures of `targets.yaml`."""
    return load_table("tile_cuda")


def _driver_is_loadable() -> bool:
    """Whether the NVIDIA driver's library can be loaded; nothing is initialised."""
    try:
        ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
    except OSError:
        return False
    return True


def detect() -> Detection:
    """Whether this machine can run CUDA kernels of ours: not yet, and the reason names what was found."""
    if not _driver_is_loadable():
        return Detection(available=False, reason="no NVIDIA driver was found (libcuda.so.1 cannot be loaded)")
    return Detection(available=False, reason="an NVIDIA driver was found, but tile-cuda does not generate code yet")


def parse_target(kind: str, options: Mapping[str, Any]) -> Target:
    """The target for `kind` and its options; `arch` is the only option, by default the table's.

    Raises:
        TargetSpecError: an unknown option, or an architecture that the table does not list.

    >>> str(parse_target("cuda", {"arch": "sm_90"}))
    '{"kind": "cuda", "arch": "sm_90"}'
    """
    if unknown := sorted(set(options).difference(_OPTIONS)):
        raise TargetSpecError(
            f"the target {kind!r} has no option {unknown[0]!r}", remedy=f"its options are: {', '.join(_OPTIONS)}"
        )
    architecture = _architecture(options.get("arch", table().default))
    return Target(kind="cuda", backend="cuda", options={"arch": architecture})


def _architecture(name: object) -> str:
    """The table's name of an architecture: `sm_90a` and `sm_100f` stand for the same facts as `sm_90` and `sm_100`."""
    text = name if isinstance(name, str) else str(name)
    base = text[:-1] if text[-1:] in ("a", "f") else text
    table().capabilities(base)
    return base


def capabilities(target: Target) -> Capabilities:
    """The facts about the target's architecture."""
    return table().capabilities(target.option("arch"))
