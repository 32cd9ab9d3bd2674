"""The interpreter's target: always there, chosen only by name, without limits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tile_core.dtypes import EXPORTED_NAMES, DType
from tile_core.errors.plugins import TargetSpecError
from tile_core.plugins.manifest import Detection, Priority
from tile_core.targets.target import Capabilities, Target

KIND = "interpret"
VECTOR_BYTES = 16
WARP_SIZE = 32
SHARED_BYTES = 64 << 20
"""Far more than hardware has; it only keeps a mistake in a shape from filling the machine's memory."""


def detect() -> Detection:
    """The interpreter needs nothing but numpy."""
    return Detection(available=True, reason="numpy", priority=Priority.NEVER)


def parse_target(kind: str, options: Mapping[str, Any]) -> Target:
    """The one target there is.

    Raises:
        TargetSpecError: options were given.
    """
    if options:
        raise TargetSpecError(
            f"target {kind!r} takes no options, got {', '.join(options)}",
            remedy="checks are chosen with pass_configs={'interpret.check_races': False}",
        )
    return Target(KIND, KIND)


def capabilities(target: Target) -> Capabilities:
    """Every scalar dtype; blocks with threads, which run in lockstep."""
    del target
    scalars = frozenset(DType(name).name for name in EXPORTED_NAMES if not DType(name).is_vector)
    return Capabilities(
        threads=True,
        max_threads=1024,
        warp_size=WARP_SIZE,
        vector_bytes=VECTOR_BYTES,
        shared_bytes=SHARED_BYTES,
        dtypes=scalars,
    )
