"""TileLang's options of compilation in our terms."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from tile_core.compat.tilelang.table import table, warn_once
from tile_core.errors.base import TileError
from tile_core.errors.compat import CompatOptionError, PassConfigKeyError
from tile_core.errors.plugins import UnknownTargetError
from tile_core.settings import settings
from tile_core.targets.select import AUTO, TargetSpec

_DEFAULT_TARGET = "TILELANG_DEFAULT_TARGET"


def overriding_target() -> bool:
    """Whether `TILE_TARGET` (the runner's `--target`) says what every kernel is compiled for."""
    return settings.source(type(settings).target) != "default"


def target_of(spec: Any = None) -> TargetSpec:
    """The target for what a program names.

    `TILE_TARGET` wins over whatever the program says. `None` follows `TILELANG_DEFAULT_TARGET`. Automatic selection
    takes what can run here; when kernels are emulated, the target that TileLang's own language is for.

    Raises:
        UnknownTargetError: a kind of TileLang that no backend compiles for.
    """
    if overriding_target():
        return None
    spec = os.environ.get(_DEFAULT_TARGET, AUTO) if spec is None else spec
    kind, options = _kind_of(spec)
    if kind == AUTO:
        return table().backend if settings.execution == "emulate" else AUTO
    wanted = table().kinds.get(kind, kind)
    if not wanted:
        raise UnknownTargetError(f"no backend compiles for TileLang's target {kind!r}", remedy="choose another target")
    return {"kind": wanted, **options}


def _kind_of(spec: Any) -> tuple[str, dict[str, Any]]:
    """Kind and options of a text, a mapping, or a target object of TVM."""
    kind = getattr(getattr(spec, "kind", None), "name", None)
    if kind is not None:
        architecture = getattr(spec, "attrs", {}).get("arch") if hasattr(spec, "attrs") else None
        return str(kind), {} if architecture is None else {"arch": str(architecture)}
    if isinstance(spec, Mapping):
        return str(spec.get("kind")), {key: value for key, value in spec.items() if key != "kind"}
    words = shlex.split(str(spec))
    options = dict(word.lstrip("-").split("=", 1) for word in words[1:] if "=" in word)
    return (words[0] if words else ""), options


def pass_options(pass_configs: Mapping[Any, Any] | None) -> tuple[dict[str, Any], list[str]]:
    """Pass configs and flags of the device compiler from TileLang's pass configs.

    One that means nothing here and asks for something is left out with a warning, once a process. Keys with a dot that
    TileLang does not use, as `interpret.check_races`, are ours and go on.

    Raises:
        PassConfigKeyError: TileLang has no such key.
    """
    own: dict[str, Any] = {}
    flags: list[str] = []
    for name, value in (pass_configs or {}).items():
        key = str(getattr(name, "value", name))
        config = table().by_key.get(key)
        if config is None or config.inside:
            if config is None and key.partition(".")[0] not in _PREFIXES and "." in key:
                own[key] = value
                continue
            raise PassConfigKeyError(f"TileLang has no pass config {key!r}", remedy=_closest(key))
        if config.flags:
            flags += _flags(value)
        elif config.switch:
            flags += [config.switch] if value else []
        elif value != config.default or value is None:
            warn_once(f"the pass config {key}={value!r} means nothing here: {config.why}")
    return own, flags


_PREFIXES = frozenset({"tl", "tir", "tirx", "cuda"})


def _closest(key: str) -> str:
    import difflib

    close = difflib.get_close_matches(key, table().by_key, n=1, cutoff=0.4)
    return f"did you mean {close[0]}?" if close else "tilelang.PassConfigKey lists the keys"


def _flags(flags: str | Sequence[str] | None) -> list[str]:
    return shlex.split(flags or "") if flags is None or isinstance(flags, str) else [str(flag) for flag in flags]


def compute_version(spec: Any = None) -> tuple[int, int]:
    """The version of the architecture that a program's kernels are for, by default of those that name no target.

    Where they are compiled for something else, which has no such versions, it is the one that they would be compiled
    for: programs choose their tiles by it.

    Raises:
        CompatOptionError: there is none: the backend of the program's device is not installed.
    """
    from tile_core.targets.select import select_target

    own = table().backend
    try:
        target = select_target(target_of(spec))
        # Other backends name their architectures otherwise: gfx1100, apple10.
        target = target if target.backend == own else select_target(own)
    except TileError as error:
        raise CompatOptionError(f"there is no compute version: {error.message}", remedy=error.remedy) from error
    found = re.search(r"(\d+)(\d)", str(target.option("arch", "")))
    if found is None:
        raise CompatOptionError("there is no compute version", remedy="name a target that has architectures")
    return int(found[1]), int(found[2])


def compile_options(
    target: Any = None,
    target_host: Any = None,
    execution_backend: str | None = None,
    verbose: bool | None = None,
    pass_configs: Mapping[Any, Any] | None = None,
    compile_flags: str | Sequence[str] | None = None,
    debug_root_path: Any = None,
) -> dict[str, Any]:
    """Keyword arguments of `tile_core.compile` for those of `tilelang.compile`.

    Raises:
        CompatOptionError: an execution backend that TileLang does not have.
        PassConfigKeyError, UnknownTargetError
    """
    if target_host is not None:
        warn_once(f"target_host={str(target_host)!r} means nothing here: the host's code is always for this machine")
    check_execution_backend(execution_backend)
    own, flags = pass_options(pass_configs)
    flags += _flags(compile_flags)
    chosen = target_of(target)
    if flags and not _takes_flags(chosen):
        warn_once(f"the compile flags {shlex.join(flags)} mean nothing here: they are for another compiler")
        flags = []
    options = {
        "target": chosen,
        "verbose": verbose,
        "pass_configs": own or None,
        "compile_flags": flags or None,
        "debug_root_path": debug_root_path,
    }
    return {name: value for name, value in options.items() if value is not None}


def check_execution_backend(name: str | None) -> None:
    """Accept TileLang's execution backends; one that is named gets a warning.

    Raises:
        CompatOptionError: TileLang does not have it either.
    """
    known = table().execution_backends
    if name is not None and name not in known:
        raise CompatOptionError(
            f"there is no execution backend {name!r}", remedy=f"TileLang's are {', '.join(known)}; none is needed here"
        )
    if name not in (None, AUTO):
        warn_once(f"execution_backend={name!r} means nothing here: a kernel is always one packed function")


def _takes_flags(target: TargetSpec) -> bool:
    """Whether compile flags of a TileLang program are for the compiler of `target`: it is of the program's own kind."""
    from tile_core.targets.select import select_target

    return select_target(target).backend == table().backend and settings.execution == "native"
