"""`names.yaml` as typed values."""

from __future__ import annotations

import functools
import sys
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import resources
from typing import Any

from tile_core.errors.compat import CompatWarning


@dataclass(frozen=True)
class PassConfig:
    """One pass config of TileLang; see `names.yaml`."""

    key: str
    why: str = ""
    default: Any = None
    flags: bool = False
    switch: str = ""
    inside: bool = False


@dataclass(frozen=True)
class Variable:
    """One environment variable of TileLang: what it sets here (`to`), or why it means nothing."""

    to: str = ""
    value: str = ""
    ignore: str | None = None
    why: str = ""


@dataclass(frozen=True)
class Requirement:
    """What a test asks for: a target kind, and the beginning of an architecture's name."""

    kind: str
    arch: str = ""


@dataclass(frozen=True)
class Table:
    """The whole file."""

    version: str
    device: str
    backend: str
    dialects: Mapping[str, str]
    modules: Mapping[str, str]
    absent: Mapping[str, str]
    refused_on_use: frozenset[str]
    kinds: Mapping[str, str]
    execution_backends: tuple[str, ...]
    profiler_backends: tuple[str, ...]
    requires: Mapping[str, Requirement]
    variables: Mapping[str, Variable]
    pass_configs: Mapping[str, PassConfig]
    by_key: Mapping[str, PassConfig] = field(repr=False)

    def reason(self, name: str) -> str:
        """Why TileLang's dotted `name` does not exist here, empty for what TileLang does not have either."""
        while name:
            if name in self.absent:
                return self.absent[name]
            name = name.rpartition(".")[0]
        return ""


@functools.cache
def table() -> Table:
    """The file, read once."""
    import yaml

    data: dict[str, Any] = yaml.safe_load(resources.files(__package__).joinpath("names.yaml").read_text("utf-8"))
    configs = {name: PassConfig(**entry) for name, entry in data.pop("pass_configs").items()}
    return Table(
        requires={name: Requirement(**entry) for name, entry in data.pop("requires").items()},
        variables={name: Variable(**entry) for name, entry in data.pop("variables").items()},
        refused_on_use=frozenset(data.pop("refused_on_use")),
        execution_backends=tuple(data.pop("execution_backends")),
        profiler_backends=tuple(data.pop("profiler_backends")),
        pass_configs=configs,
        by_key={config.key: config for config in configs.values()},
        **data,
    )


_said: set[str] = set()


def warn_once(text: str) -> None:
    """A `CompatWarning`, once a process for each text."""
    if text in _said:
        return
    _said.add(text)
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("tile_core."):
        level, frame = level + 1, frame.f_back
    warnings.warn(text, CompatWarning, stacklevel=level)
