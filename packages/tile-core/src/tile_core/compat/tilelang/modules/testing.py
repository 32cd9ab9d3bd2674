"""`tilelang.testing`: seeds, `main`, and decorators that skip a test whose target cannot run here.

With the runner's `--target` or `--execution emulate`, tests that ask for the device of TileLang's own language run:
that is what the options are for.
"""

from __future__ import annotations

import importlib.util
import inspect
import re
import sys
from collections.abc import Callable
from typing import Any, TypeVar

from tile_core.compat.tilelang.devices import runs_on_host
from tile_core.compat.tilelang.modules.utils import torch_assert_close
from tile_core.compat.tilelang.options import overriding_target
from tile_core.compat.tilelang.table import Requirement, table
from tile_core.errors.base import TileError
from tile_core.plugins import manager
from tile_core.settings import settings
from tile_core.targets.select import select_target

F = TypeVar("F", bound=Callable[..., Any])
_COMPARISONS: dict[str, Callable[[tuple[int, int], tuple[int, int]], bool]] = {
    "ge": lambda have, want: have >= want,
    "gt": lambda have, want: have > want,
    "le": lambda have, want: have <= want,
    "lt": lambda have, want: have < want,
    "eq": lambda have, want: have == want,
}
_VERSION = f"requires_{table().device}_compute_version"
_MARKS = (_VERSION, *(f"{_VERSION}_{mode}" for mode in _COMPARISONS), *table().requires)
__all__ = ["main", "requires_package", "set_random_seed", "torch_assert_close", *_MARKS]  # noqa: PLE0604


def main() -> None:
    """Run the tests of the calling script with pytest, and exit with its status."""
    import pytest

    file = inspect.stack()[1].filename
    sys.exit(pytest.main([file, *sys.argv[1:]]))


def set_random_seed(seed: int = 42) -> None:
    """Seed Python, numpy and torch."""
    import random

    import numpy as np
    import torch

    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


def requires_package(*names: str) -> Callable[[F], F]:
    """Skip a test unless these packages are installed."""
    missing = [name for name in names if importlib.util.find_spec(name) is None]
    return _mark(f"not installed: {', '.join(missing)}" if missing else "")


def _mark(reason: str) -> Callable[[F], F]:
    """A decorator that skips a test for a reason, or leaves it alone where there is none."""
    import pytest

    mark: Callable[[F], F] = pytest.mark.skipif(bool(reason), reason=reason or "it runs")
    return mark


def _missing(requirement: Requirement) -> str:
    """Why a test for this target cannot run here, empty where it can."""
    own = requirement.kind == table().device
    if own and overriding_target() and not requirement.arch:
        return ""
    try:
        target = select_target(requirement.kind)
    except TileError as error:
        return error.message
    detected = manager.detection(target.backend)
    if settings.execution == "emulate":
        return "" if own else f"{requirement.kind} is not emulated"
    if not detected.available:
        return f"{detected.reason}; --target and --execution of the runner choose another target"
    return "" if str(target.option("arch", "")).startswith(requirement.arch) else f"it is for {requirement.arch}"


def _architecture() -> tuple[int, int] | None:
    """The device's architecture as a version, `None` where programs run on something else."""
    if overriding_target() and runs_on_host() and settings.execution == "native":
        return None
    try:
        target = select_target(None if overriding_target() else table().backend)
    except TileError:
        return None
    found = re.search(r"(\d+)(\d)", str(target.option("arch", "")))
    here = settings.execution == "emulate" or manager.detection(target.backend).available
    return (int(found[1]), int(found[2])) if found and here else None


def _requires_version(major_version: int, minor_version: int = 0, mode: str = "ge") -> Callable[[F], F]:
    """Skip a test unless the device's architecture compares so to a version."""
    have, want = _architecture(), (major_version, minor_version)
    if have is not None and _COMPARISONS[mode](have, want):
        return _mark("")
    return _mark(f"it is for an architecture {mode} {major_version}.{minor_version}, here is {have or 'none'}")


def _requires(requirement: Requirement) -> Callable[[F], F]:
    def decorate(function: F) -> F:
        decorated: F = _mark(_missing(requirement))(function)
        return decorated

    return decorate


def __getattr__(name: str) -> Any:
    if name in table().requires:
        return _requires(table().requires[name])
    if name.startswith(_VERSION):
        mode = name.removeprefix(_VERSION).removeprefix("_") or "ge"

        def requires(major_version: int, minor_version: int = 0, mode: str = mode) -> Callable[[F], F]:
            return _requires_version(major_version, minor_version, mode)

        return requires
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
