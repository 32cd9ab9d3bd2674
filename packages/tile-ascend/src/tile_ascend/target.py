"""Ascend targets: which architectures there are, what each can do, and what hardware this machine has."""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tile_ascend.cann import COMPILER, program
from tile_ascend.errors import MissingCannError
from tile_core.plugins import Detection
from tile_core.targets import Capabilities, Target
from tile_core.targets.table import TargetTable, load_table


@functools.cache
def table() -> TargetTable:
    """The architectures of `targets.yaml`."""
    return load_table("tile_ascend")


_KERNEL_DRIVER = Path("/dev/davinci_manager")


def detect() -> Detection:
    """Whether this machine has an NPU driver, torch_npu and the compiler of the CANN toolkit."""
    if not _KERNEL_DRIVER.exists():
        return Detection(available=False, reason=f"no Ascend NPU driver was found ({_KERNEL_DRIVER} does not exist)")
    if importlib.util.find_spec("torch_npu") is None:
        return Detection(available=False, reason="an Ascend NPU driver was found, but the package torch_npu was not")
    try:
        program(COMPILER)
    except MissingCannError as error:
        return Detection(available=False, reason=f"an Ascend NPU driver was found, but {error.message}")
    return Detection(available=True, reason="an Ascend NPU driver, torch_npu and Bisheng were found")


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
