"""CUDA targets: which architectures there are, what each can do, and what hardware this machine has."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Mapping
from typing import Any

from tile_core.plugins import Detection
from tile_core.targets import Capabilities, Target
from tile_core.targets.table import TargetTable, load_table

# CUdevice_attribute: compute capability.
_MAJOR, _MINOR = 75, 76


@functools.cache
def table() -> TargetTable:
    """The architectures of `targets.yaml`."""
    return load_table("tile_cuda")


@functools.cache
def device_architecture() -> tuple[str | None, str]:
    """The architecture of the first GPU, `None` where there is none, and a sentence on what was found.

    Asks the driver without creating a context.
    """
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None, "no NVIDIA driver was found (libcuda.so.1 cannot be loaded)"
    count, major, minor = ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
    if driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(count)) or not count.value:
        return None, "an NVIDIA driver was found, but no GPU"
    driver.cuDeviceGetAttribute(ctypes.byref(major), _MAJOR, 0)
    driver.cuDeviceGetAttribute(ctypes.byref(minor), _MINOR, 0)
    name = f"sm_{major.value}{minor.value}"
    return name, f"{count.value} GPU(s), the first of architecture {name}"


def detect() -> Detection:
    """Whether this machine has a GPU whose architecture the table lists."""
    found, reason = device_architecture()
    if found is None:
        return Detection(available=False, reason=reason)
    if found not in table().architectures:
        return Detection(available=False, reason=f"{reason}, which tile-cuda does not list")
    return Detection(available=True, reason=reason)


def parse_target(kind: str, options: Mapping[str, Any]) -> Target:
    """The target for `kind` and its options; `arch` is the only option, by default the table's.

    Raises:
        TargetSpecError: an unknown option, or an architecture that the table does not list.

    >>> str(parse_target("cuda", {"arch": "sm_90"}))
    '{"kind": "cuda", "arch": "sm_90"}'
    """
    default = None if "arch" in options else device_architecture()[0]
    return table().target("cuda", kind, options, name=_architecture, default=default)


def _architecture(name: str) -> str:
    """The table's name of an architecture: `sm_90a` and `sm_100f` stand for the same facts as `sm_90` and `sm_100`."""
    base = name[:-1] if name[-1:] in ("a", "f") else name
    return base if base in table().architectures else name


def capabilities(target: Target) -> Capabilities:
    """The facts about the target's architecture."""
    return table().capabilities(target.option("arch"))


def compiled_architecture(target: Target) -> str:
    """What the compiler is asked for: from sm_90 on code for this architecture only, which has all of its instructions.

    >>> compiled_architecture(parse_target("cuda", {"arch": "sm_90"}))
    'sm_90a'
    """
    name = str(target.option("arch"))
    return f"{name}a" if int(name.removeprefix("sm_")) >= 90 else name
