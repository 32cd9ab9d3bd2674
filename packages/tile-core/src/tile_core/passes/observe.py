"""Who watches a pipeline run: the plugins' hooks, and `TILE_DEBUG`."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

from tile_core.settings import settings

if TYPE_CHECKING:
    from tvm import tirx

    from tile_core.passes.base import Observer

_TIMES, _PROGRAMS = 2, 3


def observers(target: Any) -> list[tuple[Observer, Observer]]:
    """Pairs of callbacks before and after every pass, for the plugins and the debug level of this moment."""
    found = [_plugins(target)]
    if settings.debug >= _TIMES:
        found.append(_trace(show_program=settings.debug >= _PROGRAMS))
    return found


def _plugins(target: Any) -> tuple[Observer, Observer]:
    from tile_core.plugins.manager import hooks

    def before(name: str, func: tirx.PrimFunc) -> None:
        hooks().tile_before_pass(name=name, func=func, target=target)

    def after(name: str, func: tirx.PrimFunc) -> None:
        hooks().tile_after_pass(name=name, func=func, target=target)

    return before, after


def _trace(*, show_program: bool) -> tuple[Observer, Observer]:
    started = [0.0]

    def before(name: str, func: tirx.PrimFunc) -> None:
        started[0] = time.perf_counter()

    def after(name: str, func: tirx.PrimFunc) -> None:
        sys.stderr.write(f"tile:   {name} {(time.perf_counter() - started[0]) * 1e3:.1f} ms\n")
        if show_program:
            sys.stderr.write(f"{func.script()}\n")

    return before, after
