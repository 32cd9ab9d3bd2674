"""Clang 19 reads every kernel of the conformance suite with Metal's address spaces as its own.

That finds pointers to another memory than they are taken for, names that Metal does not have, and what is newer than
the C++14 that Metal is made of. It is no compiler for Metal: what is only Metal's stays unseen.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import tile_core as tl
from tile_core.testing import BackendConformance, Run
from tile_core.testing.programs import PROGRAMS

ABSENT = BackendConformance.ALL & {"float64", "float8", "float8_fnuz", "float8_e8m0fnu"}
UNPRINTABLE = frozenset({"TILE-E0412", "TILE-E0590"})


class Printing(Run):
    """A run that prints every kernel and lets the interpreter give its results, so that the program goes on."""

    sources: set[str]

    def compile(self, func: Any, **options: Any) -> Any:
        options.setdefault("pass_configs", self.pass_configs)
        try:
            self.sources.add(tl.compile(func, **{**options, "target": "metal"}).get_kernel_source())
        except tl.errors.TileError as error:
            if error.code not in UNPRINTABLE:
                raise
        return tl.compile(func, target="interpret", **options)


@pytest.mark.compile
def test_every_conformance_kernel(read: Callable[[str], None]) -> None:
    found: set[str] = set()
    for program in PROGRAMS:
        if not program.needs & ABSENT:
            run = Printing("interpret", program.id)
            run.sources = found
            run.execute(program.body)
    assert len(found) > 200
    for source in sorted(found):
        read(source)
