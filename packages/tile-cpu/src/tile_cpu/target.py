"""CPU targets: the levels of instruction sets, and what this machine has.

The default is the machine itself. It is resolved to LLVM's name of the CPU and its exact features when the target is
made, so that the target, and with it the cache key, says which instructions the code uses.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from typing import Any

from tile_core.errors import TargetSpecError
from tile_core.plugins import Detection
from tile_core.plugins.manifest import Priority
from tile_core.targets import Capabilities, Target
from tile_core.targets.table import TargetTable, load_table
from tile_core.targets.target import refuse_unknown
from tile_cpu.llvm.features import cpu_facts, features_of, host_features, host_target

HOST = "host"
DEFAULT = HOST
"""The level of a target that names none."""
_OPTIONS = ("arch", "cpu", "features", "triple")


@functools.cache
def table() -> TargetTable:
    """The levels of `targets.yaml`."""
    return load_table("tile_cpu")


def detect() -> Detection:
    """Every machine has a CPU."""
    return Detection(available=True, reason="the host's CPU", priority=Priority.HOST)


def parse_target(kind: str, options: Mapping[str, Any]) -> Target:
    """The target for `kind` and its options.

    `arch` is `host` (the default) or a level of `targets.yaml`; `cpu` and `features` (`["+avx2", "-fma"]`), in LLVM's
    names, and `triple` replace what the level says. A `cpu` has its own features and those that are given.

    Raises:
        TargetSpecError: an unknown option or level.

    >>> parse_target("cpu", {"arch": "x86-64-v3"}).option("cpu")
    'x86-64-v3'
    """
    refuse_unknown(kind, options, _OPTIONS)
    arch = options.get("arch", DEFAULT)
    if not isinstance(arch, str):
        raise TargetSpecError(
            f"the option 'arch' of target {kind!r} is {arch!r}, expected text",
            remedy='write {"kind": "cpu", "arch": "host"}',
        )
    level = _machine(arch)
    if "cpu" in options:
        level["features"] = []  # those of another CPU are none of this one's
    chosen = {**level, **options, "arch": arch}
    for name, (accepted, valid) in _FORMS.items():
        if not valid(chosen[name]):
            raise TargetSpecError(
                f"the option {name!r} of target {kind!r} is {chosen[name]!r}", remedy=f"it must be {accepted}"
            )
    return Target(kind="cpu", backend="cpu", options=chosen)


def _is_text(value: object) -> bool:
    return isinstance(value, str) and value != ""


def _are_features(value: object) -> bool:
    return isinstance(value, list | tuple) and all(_is_text(name) and name[0] in "+-" for name in value)


_FORMS: Mapping[str, tuple[str, Callable[[object], bool]]] = {
    "cpu": ("LLVM's name of a CPU", _is_text),
    "features": ('a list of LLVM\'s features, each with a sign: ["+avx2"]', _are_features),
    "triple": ("an LLVM triple", _is_text),
}


def missing_here(target: Target) -> str:
    """What this machine lacks to run code for `target`, in words; empty where it lacks nothing."""
    ours = parse_target("cpu", {"arch": HOST})
    theirs, here = (str(each.option("triple")).partition("-")[0] for each in (target, ours))
    if theirs != here:
        return f"it is a {here} machine, the code is for {theirs}"
    wanted = features_of(target.option("cpu"), tuple(target.option("features")), target.option("triple"))
    lacking = sorted(name for name in wanted if not host_features().get(name, True))
    return f"its CPU lacks {', '.join(lacking)}" if lacking else ""


def _machine(arch: str) -> dict[str, Any]:
    if arch == HOST:
        cpu, features = host_target()
        return {"cpu": cpu, "features": list(features), "triple": _host_triple()}
    facts = table().capabilities(arch).facts
    return {name: facts[name] for name in ("cpu", "features", "triple")}


@functools.cache
def _host_triple() -> str:
    from tvm.target import codegen

    return str(codegen.llvm_get_system_triple())


def capabilities(target: Target) -> Capabilities:
    """The facts about the target's CPU: those of its level, or of the exact machine where one is named."""
    known = table().capabilities(target.option("arch"))
    cpu, features, triple = (target.option(name) for name in ("cpu", "features", "triple"))
    facts = asdict(cpu_facts(cpu, tuple(features), triple))
    exact = {**known.facts, **facts, "cpu": cpu, "features": features, "triple": triple}
    return replace(known, vector_bytes=facts["vector_bytes"], facts=exact)


@functools.cache
def _llvm_target(cpu: str, features: tuple[str, ...], triple: str) -> Any:
    import tvm

    options: dict[str, Any] = {"kind": "llvm", "mcpu": cpu, "mtriple": triple}
    if features:
        options["mattr"] = list(features)
    target = tvm.target.Target(options)
    return target.with_host(target)


def llvm_target(target: Target) -> Any:
    """TVM's target for LLVM, with itself as the host."""
    return _llvm_target(target.option("cpu"), tuple(target.option("features")), target.option("triple"))
