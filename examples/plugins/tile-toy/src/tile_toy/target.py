"""Toy targets, and whether this machine has what they need."""

from __future__ import annotations

import functools
import shutil
from collections.abc import Mapping
from typing import Any

from tile_core.plugins import Detection
from tile_core.targets import Capabilities, Target
from tile_core.targets.table import TargetTable, load_table
from tile_core.targets.target import refuse_unknown
from tile_toy.settings import settings

BELOW_HOST = 5
"""Less than `Priority.HOST`: `auto` takes this backend only where no other backend for the host is installed."""


@functools.cache
def table() -> TargetTable:
    """The architectures of `targets.yaml`."""
    return load_table("tile_toy")


def detect() -> Detection:
    """Available where the C compiler is."""
    compiler = shutil.which(settings.cc)
    if compiler is None:
        return Detection(available=False, reason=f"there is no C compiler {settings.cc!r}", priority=BELOW_HOST)
    return Detection(available=True, reason=f"the C compiler {compiler}", priority=BELOW_HOST)


def parse_target(kind: str, options: Mapping[str, Any]) -> Target:
    """The target `toy`; it has no options.

    Raises:
        TargetSpecError: an option was given.
    """
    refuse_unknown(kind, options, ())
    return Target(kind, "toy")


def capabilities(target: Target) -> Capabilities:
    """The facts of `targets.yaml`."""
    return table().capabilities()
