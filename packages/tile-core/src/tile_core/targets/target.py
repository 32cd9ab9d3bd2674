"""What a kernel is compiled for, and the facts that the compiler may ask about it.

A `Target` is a value: equal targets have equal keys, and the key goes into the cache key. `Capabilities` are facts from
a backend's `targets.yaml`; shared code asks them and never a target's name.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from tile_core.errors.plugins import CapabilityError, TargetSpecError

_MISSING = object()


@dataclass(frozen=True)
class Target:
    """A kind, the backend that compiles it, and JSON-valued options.

    `str(target)` is a spelling that `select_target` accepts again.

    Raises:
        TargetSpecError: an option is not a JSON value.

    >>> str(Target("cpu", "cpu"))
    'cpu'
    >>> str(Target("cpu", "cpu", {"arch": "znver4"}))
    '{"kind": "cpu", "arch": "znver4"}'
    """

    kind: str
    backend: str
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _check_json(self.kind, self.options)
        copied = json.loads(json.dumps(dict(self.options)))
        object.__setattr__(self, "options", MappingProxyType(dict(sorted(copied.items()))))

    def key(self) -> str:
        """Canonical JSON: equal for equal targets, whatever the order of options."""
        parts = {"kind": self.kind, "backend": self.backend, "options": dict(self.options)}
        return json.dumps(parts, sort_keys=True, separators=(",", ":"))

    def option(self, name: str, default: Any = None) -> Any:
        """The option `name`, or `default` where it was not given."""
        return self.options.get(name, default)

    def __str__(self) -> str:
        return json.dumps({"kind": self.kind, **self.options}) if self.options else self.kind

    def __hash__(self) -> int:
        return hash(self.key())


def _check_json(kind: str, options: object) -> None:
    if not isinstance(options, Mapping) or not all(isinstance(name, str) for name in options):
        raise TargetSpecError(
            f"the options of target {kind!r} must be a mapping with text keys, got {options!r}",
            remedy='write {"kind": ..., "option": value}',
        )
    for name, value in options.items():
        try:
            json.dumps(value, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise TargetSpecError(
                f"option {name!r} of target {kind!r} is {value!r}, which is not a JSON value",
                remedy="use text, numbers, booleans, None, and lists or mappings of these",
            ) from error


def refuse_unknown(kind: str, options: Mapping[str, Any], known: Collection[str]) -> None:
    """Refuse options that a backend does not know.

    Raises:
        TargetSpecError: one of `options` is not in `known`.
    """
    if unknown := sorted(set(options).difference(known)):
        raise TargetSpecError(
            f"the target {kind!r} has no option {unknown[0]!r}",
            remedy=f"its options are: {', '.join(known)}" if known else "it has none: name the kind alone",
        )


@dataclass(frozen=True, kw_only=True)
class Capabilities:
    """Facts about a target. Sizes are in bytes; `None` means that the hardware sets no limit.

    * `threads`: blocks have threads with indices of their own (SIMT); otherwise a block is one sequential program.
    * `max_threads`: the most threads of a block; 1 without threads.
    * `warp_size`: threads that run in lockstep; 1 without threads.
    * `vector_bytes`: the widest single load or store of one thread.
    * `shared_bytes`: the most shared memory of a block.
    * `dtypes`: names of the scalar dtypes that arithmetic may use, canonical spelling.
    * `facts`: everything else the backend's table states, by name.

    >>> Capabilities(vector_bytes=32, dtypes=frozenset({"float32"}), facts={"cores": 8}).fact("cores")
    8
    """

    threads: bool = False
    max_threads: int = 1
    warp_size: int = 1
    vector_bytes: int
    shared_bytes: int | None = None
    dtypes: frozenset[str]
    facts: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.vector_bytes < 1 or self.max_threads < 1 or self.warp_size < 1:
            raise CapabilityError(
                f"vector_bytes, max_threads and warp_size are at least 1, got {self!r}",
                remedy="state the hardware's own numbers",
            )
        if not self.threads and (self.max_threads, self.warp_size) != (1, 1):
            raise CapabilityError(
                "a target without threads has max_threads = 1 and warp_size = 1",
                remedy="leave both out, or set threads=True",
            )
        object.__setattr__(self, "dtypes", frozenset(self.dtypes))
        object.__setattr__(self, "facts", MappingProxyType(dict(self.facts)))

    def fact(self, name: str, default: Any = _MISSING) -> Any:
        """The fact `name` of the backend's table.

        Raises:
            CapabilityError: the table does not state it and no default is given.
        """
        value = self.facts.get(name, default)
        if value is _MISSING:
            known = ", ".join(sorted(self.facts)) or "none"
            raise CapabilityError(
                f"the target's table states no fact {name!r}; it states: {known}",
                remedy="ask with a default, or state the fact in targets.yaml",
            )
        return value

    def supports(self, dtype: object) -> bool:
        """Whether arithmetic may use the scalar dtype (a name, or a `DType`)."""
        return str(dtype) in self.dtypes

    def __hash__(self) -> int:
        return hash((self.threads, self.max_threads, self.warp_size, self.vector_bytes, self.shared_bytes, self.dtypes))
