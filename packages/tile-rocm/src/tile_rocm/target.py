"""ROCm targets: which architectures there are, what each can do, and what hardware this machine has."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tile_core.plugins import Detection
from tile_core.targets import Capabilities, Target
from tile_core.targets.table import TargetTable, load_table
from tile_rocm.libraries import COMPILER, RUNTIME, candidates


@functools.cache
def table() -> TargetTable:
    """The architectures of `targets.yaml`."""
    return load_table("tile_rocm")


_KERNEL_DRIVER = Path("/dev/kfd")


def detect() -> Detection:
    """Whether this machine has an AMD GPU driver and the libraries that compile and launch."""
    if not _KERNEL_DRIVER.exists():
        return Detection(available=False, reason=f"no AMD GPU driver was found ({_KERNEL_DRIVER} does not exist)")
    missing = [name for name in (COMPILER, RUNTIME) if next(candidates(name), None) is None]
    if missing:
        libraries = " and ".join(f"lib{name}.so" for name in missing)
        return Detection(available=False, reason=f"an AMD GPU driver was found, but {libraries} was not")
    return Detection(available=True, reason="an AMD GPU driver, HIPRTC and the HIP runtime were found")


def parse_target(kind: str, options: Mapping[str, Any]) -> Target:
    """The target for `kind` and its options; `arch` is the only option, by default the table's.

    Raises:
        TargetSpecError: an unknown option, or an architecture that the table does not list.

    >>> str(parse_target("rocm", {"arch": "gfx942"}))
    '{"kind": "rocm", "arch": "gfx942"}'
    """
    return table().target("rocm", kind, options, name=_architecture)


def _architecture(name: str) -> str:
    """The table's name of an architecture; features (`gfx942:sramecc+:xnack-`) do not change the facts."""
    return name.partition(":")[0]


def capabilities(target: Target) -> Capabilities:
    """The facts about the target's architecture."""
    return table().capabilities(target.option("arch"))
