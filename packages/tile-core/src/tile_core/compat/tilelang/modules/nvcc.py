"""`tilelang.contrib.nvcc`: the version of the architecture that kernels are compiled for."""

from __future__ import annotations

from typing import Any

from tile_core.compat.tilelang.options import compute_version

__all__ = ["get_target_compute_version", "parse_compute_version"]


def get_target_compute_version(target: Any = None) -> str:
    """The version of a target's architecture, as "9.0"; by default of the target that kernels are compiled for.

    Raises:
        CompatOptionError: the backend of the program's device is not installed.
    """
    return "{}.{}".format(*compute_version(target))


def parse_compute_version(compute_version: str) -> tuple[int, int]:
    """The two numbers of a version.

    >>> parse_compute_version("9.0")
    (9, 0)
    """
    major, _, minor = compute_version.partition(".")
    return int(major), int(minor or 0)
