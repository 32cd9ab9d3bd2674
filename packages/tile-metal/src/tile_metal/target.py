"""Metal targets: which architectures there are, what each can do, and what hardware this machine has."""

from __future__ import annotations

import functools
import platform
from collections.abc import Mapping
from typing import Any

from tile_core.plugins import Detection
from tile_core.targets import Capabilities, Target
from tile_core.targets.table import TargetTable, load_table


@functools.cache
def table() -> TargetTable:
    """The architectures of `targets.yaml`."""
    return load_table("tile_metal")


def detect() -> Detection:
    """Whether this machine can run Metal kernels of ours: not yet, and the reason names what was found."""
    system, machine = platform.system(), platform.machine()
    if (system, machine) != ("Darwin", "arm64"):
        return Detection(available=False, reason=f"Metal needs macOS on Apple silicon, this is {system} on {machine}")
    return Detection(available=False, reason="Apple silicon was found, but tile-metal does not generate code yet")


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
