"""What torch's module of the programs' device answers where kernels run on the host.

A program asks it which architecture it is on, how many blocks run at once, and how long something took. It is told what
it would be told at home where that decides what the program does (the architecture), and what is true here otherwise.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tile_core.compat.tilelang.options import compute_version
from tile_core.compat.tilelang.table import table


@dataclass(frozen=True)
class HostProperties:
    """The properties of the host as a device: cores are its multiprocessors, `total_memory` is in bytes."""

    name: str
    major: int
    minor: int
    multi_processor_count: int
    total_memory: int


class HostEvent:
    """A moment on the host's clock."""

    def __init__(self, *_arguments: Any, **_options: Any) -> None:
        self._at = 0.0

    def record(self, stream: Any = None) -> None:
        """Now: what was asked for before is done."""
        del stream
        self._at = time.perf_counter()

    def synchronize(self) -> None:
        """Nothing to wait for."""

    def query(self) -> bool:
        """It has happened."""
        return True

    def elapsed_time(self, end: HostEvent) -> float:
        """Milliseconds until `end`."""
        return (end._at - self._at) * 1e3


def answers() -> Mapping[str, Callable[..., Any]]:
    """Functions for the names of torch's module of the device, each one of its own: torch.compile tells them apart."""
    silent = ("synchronize", "init", "set_device", "empty_cache", "reset_peak_memory_stats")
    return {
        **{name: _silent() for name in silent},
        "Event": HostEvent,
        "current_device": lambda: 0,
        "device_count": lambda: 1,
        "get_device_capability": lambda *_device: compute_version(),
        "get_device_name": lambda *_device: _properties().name,
        "get_device_properties": lambda *_device: _properties(),
        "get_rng_state": lambda *_device: _generator().get_state(),
        "is_available": lambda: True,
        "manual_seed": _seed(),
        "manual_seed_all": _seed(),
        "set_rng_state": lambda state, *_device: _generator().set_state(state),
    }


def _silent() -> Callable[..., None]:
    def nothing(*_arguments: Any, **_keywords: Any) -> None:
        return None

    return nothing


def _seed() -> Callable[[int], None]:
    def seed(value: int) -> None:
        # Not `torch.manual_seed`, which seeds every device, and so this one.
        _generator().manual_seed(value)

    return seed


def _generator() -> Any:
    import torch

    return torch.default_generator


def _properties() -> HostProperties:
    cores, memory = os.cpu_count() or 1, os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return HostProperties(f"{table().device} on {cores} cores of the host", *compute_version(), cores, memory)
