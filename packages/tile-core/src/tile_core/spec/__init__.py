"""Coverage of TileLang's names: what each dialect has, refuses by design, does not have yet, or lacks.

`api.yaml` lists the names of TileLang 0.1.15 with their signatures; `python -m tile_core.spec` prints the report.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Any

__all__ = ["MODULES", "Coverage", "coverage", "names_of", "signature_of", "table"]

MODULES: Mapping[str, str] = {
    "common": "tile_core.language",
    "cpu": "tile_cpu.language",
    "cuda": "tile_cuda.language",
    "rocm": "tile_rocm.language",
    "metal": "tile_metal.language",
    "ascend": "tile_ascend.language",
}
"""Dialect to the module that has its names; the backends' modules may not be installed."""


@dataclass(frozen=True)
class Coverage:
    """The names of one dialect of TileLang, each in exactly one of the four sets, sorted."""

    dialect: str
    present: tuple[str, ...]
    refused: tuple[str, ...]
    unimplemented: tuple[str, ...]
    missing: tuple[str, ...]

    @property
    def total(self) -> int:
        """How many names the dialect has."""
        return len(self.present) + len(self.refused) + len(self.unimplemented) + len(self.missing)


@functools.cache
def table() -> Mapping[str, Mapping[str, Any]]:
    """Name to its facts, as `api.yaml` states them."""
    import yaml

    text = resources.files(__name__).joinpath("api.yaml").read_text(encoding="utf-8")
    names: Mapping[str, Mapping[str, Any]] = yaml.safe_load(text)["names"]
    return names


def names_of(dialect: str) -> tuple[str, ...]:
    """The names that TileLang's dialect exports, sorted."""
    return tuple(sorted(name for name, facts in table().items() if facts["in"] == "all" or dialect in facts["in"]))


def signature_of(name: str, dialect: str = "common") -> str | None:
    """TileLang's signature of a function as text, `None` for what is no function."""
    facts = table()[name]
    found: str | None = facts.get("signatures", {}).get(dialect, facts.get("signature"))
    return found


def coverage(dialect: str) -> Coverage:
    """How our module of a dialect compares to TileLang's.

    Raises:
        ModuleNotFoundError: the backend is not installed.
    """
    module = importlib.import_module(MODULES[dialect])
    exported = set(module.__all__)
    later = _unimplemented(module)
    names = names_of(dialect)
    refused = {name for name in names if name in exported and is_refused(getattr(module, name))}
    return Coverage(
        dialect,
        present=_sorted(name for name in names if name in exported and name not in refused),
        refused=_sorted(refused),
        unimplemented=_sorted(name for name in names if name in later and name not in exported),
        missing=_sorted(name for name in names if name not in exported and name not in later),
    )


def is_refused(value: Any) -> bool:
    """Whether a name of the language exists only to say why it is refused."""
    return bool(getattr(value, "tile_refused", False))


def _unimplemented(module: Any) -> frozenset[str]:
    return frozenset(getattr(getattr(module, "DIALECT", None), "unimplemented", frozenset()))


def _sorted(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(names))
