"""Metal targets: which architectures there are, what each can do, and what hardware this machine has."""

from __future__ import annotations

import functools
import platform
from collections.abc import Mapping
from importlib import metadata
from typing import Any

from tile_core.plugins import Detection
from tile_core.targets import Capabilities, Target
from tile_core.targets.table import TargetTable, load_table

_TORCH = (2, 6)
"""The first version with `torch.mps.compile_shader`."""


@functools.cache
def table() -> TargetTable:
    """The architectures of `targets.yaml`."""
    return load_table("tile_metal")


def detect() -> Detection:
    """Whether this machine has an Apple GPU, and a torch that compiles for it; torch is not imported for that."""
    system, machine = platform.system(), platform.machine()
    if (system, machine) != ("Darwin", "arm64"):
        return Detection(available=False, reason=f"Metal needs macOS on Apple silicon, this is {system} on {machine}")
    try:
        torch = metadata.version("torch")
    except metadata.PackageNotFoundError:
        return Detection(available=False, reason="Apple silicon was found, but torch, which launches, is not installed")
    if tuple(map(int, torch.split("+")[0].split(".")[:2])) < _TORCH:
        return Detection(available=False, reason=f"Apple silicon was found, but torch {torch} is older than 2.6")
    return Detection(available=True, reason=f"Apple silicon and torch {torch} were found")


def parse_target(kind: str, options: Mapping[str, Any]) -> Target:
    """The target for `kind` and its options; `arch` is the only option, by default the table's.

    Raises:
        TargetSpecError: an unknown option, or an architecture that the table does not list.

    >>> str(parse_target("metal", {"arch": "apple9"}))
    '{"kind": "metal", "arch": "apple9"}'
    """
    return table().target("metal", kind, options)


def capabilities(target: Target) -> Capabilities:
    """The facts about the target's architecture."""
    return table().capabilities(target.option("arch"))
