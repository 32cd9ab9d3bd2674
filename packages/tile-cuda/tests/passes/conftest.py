"""Runs a program with tensors whose copies a warpgroup of its own may make."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import tile_core as tl


@pytest.fixture
def run() -> Callable[..., int]:
    """Run a program on sm_90, emulated with checks; how many launches copy ahead."""

    def run_program(program: Any, *arguments: Any) -> int:
        target = {"kind": "cuda", "arch": "sm_90"}
        kernel = tl.compile(program, target=target, execution="emulate", pass_configs={"tile.emulate_check": True})
        kernel(*arguments)
        return int(kernel.report()["specialized_warps"])

    return run_program
