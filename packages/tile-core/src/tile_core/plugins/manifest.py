"""The manifest a backend hands over.

It is plain data, checked when constructed, and every heavy part is named by a string that is imported on use. So
loading the manifests of all installed backends costs milliseconds and cannot fail because of a missing driver.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import IntEnum
from types import MappingProxyType

from tile_core.errors.plugins import BackendManifestError

_NAME = re.compile(r"[a-z][a-z0-9_]*\Z")
_MODULE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*\Z", re.ASCII)
_REFERENCE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(\.[A-Za-z_]\w*)*\Z", re.ASCII)
_RESERVED_KINDS = frozenset({"auto"})


class Priority(IntEnum):
    """Where a backend stands when `target="auto"` chooses; any int may be used, the highest available one wins."""

    NEVER = -1
    """Chosen only by name: a debugger, an experiment."""
    HOST = 10
    """Runs on every machine: the fallback."""
    ACCELERATOR = 100
    """Runs on a device that was found."""


@dataclass(frozen=True, kw_only=True)
class Detection:
    """What `detect` found. `reason` says why the backend is unavailable, or which device was found.

    >>> Detection(available=False, reason="no device driver was found", priority=Priority.ACCELERATOR).available
    False
    """

    available: bool
    reason: str
    priority: int = Priority.ACCELERATOR

    def __post_init__(self) -> None:
        if not self.available and not self.reason:
            raise BackendManifestError(
                "a Detection says that its backend is not available but gives no reason",
                remedy="pass `reason=` with one sentence for the user",
            )


@dataclass(frozen=True, kw_only=True)
class Backend:
    """One backend: its name, what it compiles for, and where its parts are.

    `name` is also the name of the entry point. References have the form `"module:attribute"`:

    * `detect() -> Detection`
    * `parse_target(kind: str, options: Mapping) -> Target`
    * `capabilities(target: Target) -> Capabilities`
    * `pipeline_edits(target: Target) -> tuple[Edit, ...]`
    * `op_lowerings`: the name of a tile op to its lowering
    * `printer`: prints a lowered function
    * `compiler(program: PrimFunc, request: CompileRequest) -> Artifact`
    * `runtime(artifact: Artifact, request: CompileRequest) -> Callable[..., None]`
    * `emulator`: runs printed code on the host
    * `settings`: a `tile_core.settings.Settings` with the backend's own variables

    `pass_configs` are the names of the options that the backend's compiler, lowerings and passes read; a name that
    nobody declares is refused.

    `dialect` is the module that a kernel author imports as `T`.

    Raises:
        BackendManifestError: a field has a form that cannot be right.

    >>> Backend(
    ...     name="toy", target_kinds=("toy",), dialect="tile_toy.language", detect="tile_toy.target:detect",
    ...     parse_target="tile_toy.target:parse", capabilities="tile_toy.target:capabilities",
    ...     compiler="tile_toy.compiler:compile", runtime="tile_toy.runtime:load",
    ... ).target_kinds
    ('toy',)
    """

    name: str
    target_kinds: tuple[str, ...]
    dialect: str
    detect: str
    parse_target: str
    capabilities: str
    compiler: str
    runtime: str
    pipeline_edits: str | None = None
    op_lowerings: Mapping[str, str] = field(default_factory=dict)
    printer: str | None = None
    emulator: str | None = None
    settings: str | None = None
    pass_configs: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _check(self.name, "name", _NAME, "a lower-case identifier", self.name)
        self._check_kinds()
        _check(self.name, "dialect", _MODULE, "the dotted name of a module", self.dialect)
        for name in REFERENCES:
            value = getattr(self, name)
            if value is not None or name in REQUIRED_REFERENCES:
                _check(self.name, name, _REFERENCE, '"module:attribute"', value)
        if not isinstance(self.pass_configs, tuple):
            raise _error(self.name, "pass_configs", "a tuple of names", self.pass_configs)
        for name in self.pass_configs:
            _check(self.name, "pass_configs", _MODULE, "a tuple of dotted names", name)
        self._freeze_lowerings()

    def _check_kinds(self) -> None:
        kinds: object = self.target_kinds
        if not isinstance(kinds, tuple) or not kinds:
            raise _error(self.name, "target_kinds", "a tuple of at least one kind", self.target_kinds)
        for kind in self.target_kinds:
            _check(self.name, "target_kinds", _NAME, "a tuple of lower-case identifiers", kind)
        if len(set(self.target_kinds)) != len(self.target_kinds):
            raise _error(self.name, "target_kinds", "each kind once", self.target_kinds)
        if reserved := _RESERVED_KINDS.intersection(self.target_kinds):
            raise _error(self.name, "target_kinds", f"not the reserved {sorted(reserved)}", self.target_kinds)

    def _freeze_lowerings(self) -> None:
        lowerings: object = self.op_lowerings
        if not isinstance(lowerings, Mapping):
            raise _error(self.name, "op_lowerings", "a mapping from op name to reference", self.op_lowerings)
        for op, reference in self.op_lowerings.items():
            _check(self.name, "op_lowerings", _MODULE, "names of tile ops as keys", op)
            _check(self.name, f"op_lowerings[{op!r}]", _REFERENCE, '"module:attribute"', reference)
        object.__setattr__(self, "op_lowerings", MappingProxyType(dict(self.op_lowerings)))

    def __hash__(self) -> int:
        return hash((self.name, self.target_kinds, self.dialect))


REQUIRED_REFERENCES = ("detect", "parse_target", "capabilities", "compiler", "runtime")
REFERENCES = (*REQUIRED_REFERENCES, "pipeline_edits", "printer", "emulator", "settings")
assert set(REFERENCES) < {item.name for item in fields(Backend)}


def _check(backend: object, name: str, pattern: re.Pattern[str], accepted: str, value: object) -> None:
    if not isinstance(value, str) or pattern.match(value) is None:
        raise _error(backend, name, accepted, value)


def _error(backend: object, name: str, accepted: str, value: object) -> BackendManifestError:
    return BackendManifestError(
        f"the manifest of backend {backend!r} has {name} = {value!r}, expected {accepted}",
        remedy="correct the plugin's `tile_register_backend`",
    )
