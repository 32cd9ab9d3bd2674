"""Ascend targets: which architectures there are, what each can do, and what hardware this machine has."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tile_core.plugins import Detection
from tile_core.targets import Capabilities, Target
from tile_core.targets.table import TargetTable, load_table


@functools.cache
def table() -> TargetTable:
    """The architectures of `targets.yaml`."""
    return load_table("tile_ascend")


_KERNEL_DRIVER = Path("/dev/davinci_manager")


def detect() -> Detection:
    """Whether this machine can run Ascend kernels of ours: not yet, and the reason names what was found."""
    if not _KERNEL_DRIVER.exists():
        return Detection(available=False, reason=f"no Ascend NPU driver was found ({_KERNEL_DRIVER} does not exist)")
    return Detection(available=False, reason="an Ascend NPU was found, but tile-ascend does not generate code yet")


def parse_target(kind: str, options: Mapping[str, Any]) -> Target:
    """The target for `kind` and its options; `arch` is the only option, by default the table's.

    Raises:
        TargetSpecError: an unknown option, or an architecture that the table does not list.

    >>> str(parse_target("ascend", {"arch": "950"}))
    '{"kind": "ascend", "arch": "950"}'
    """
    return table().target("ascend", kind, options)


def capabilities(target: Target) -> Capabilities:
    """The facts about the target's architecture."""
    return table().capabilities(target.option("arch"))
