"""What passes between the jit, a backend's compiler, the cache and a backend's runtime."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Execution = Literal["native", "emulate"]


@dataclass(frozen=True)
class CompileRequest:
    """Everything besides the program that decides what is compiled. All of it is in the cache key."""

    target: Any
    pass_configs: Mapping[str, Any] = field(default_factory=dict)
    compile_flags: tuple[str, ...] = ()
    execution: Execution = "native"


@dataclass(frozen=True)
class Artifact:
    """A compiled kernel as bytes and JSON: what the cache stores and a runtime loads.

    `report` holds JSON values only: shared bytes, registers, vector widths, guards. `persistent=False` keeps it out
    of the disk cache.
    """

    files: Mapping[str, bytes]
    kernel_source: str = ""
    host_source: str = ""
    report: Mapping[str, Any] = field(default_factory=dict)
    persistent: bool = True
