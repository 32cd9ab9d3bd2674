"""From what a user wrote to a `Target`.

`auto` is decided by facts alone: each backend's `detect` says whether its hardware is there and where it stands, and
the highest wins. The host's backend is the fallback because it declares a low priority, not because of its name.
Between equals the alphabet decides, so that a machine always gives the same answer.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tile_core.errors.plugins import BackendManifestError, NoTargetError, TargetSpecError
from tile_core.plugins import manager
from tile_core.plugins.manifest import Detection, Priority
from tile_core.settings import settings
from tile_core.targets.target import Target

TargetSpec = str | Mapping[str, Any] | Target | None
AUTO = "auto"


def select_target(spec: TargetSpec = None) -> Target:
    """The target that `spec` names.

    `spec` is a `Target`, a kind such as `"cpu"`, a mapping with the key `kind` and options, the same mapping as JSON
    text, or `"auto"`. `None` stands for the setting `TILE_TARGET`, which is `auto` where it is not set.

    Naming a target never asks for its hardware: compiling for absent hardware works.

    Raises:
        TargetSpecError: `spec` has another form.
        UnknownTargetError, BackendNotInstalledError, BackendImportError, BackendClashError: there is no such backend.
        NoTargetError: `auto` found nothing that can run here.
    """
    if isinstance(spec, Target):
        manager.backend(spec.backend)
        return spec
    wanted = settings.target if spec is None else spec
    kind, options = _parse(wanted)
    if kind != AUTO:
        return _target(kind, options)
    if options:
        raise TargetSpecError('the target "auto" takes no options', remedy="name the kind that the options are for")
    return _target(manager.backend(automatic_backend()).target_kinds[0], {})


def _parse(spec: object) -> tuple[str, dict[str, Any]]:
    if isinstance(spec, str) and spec.lstrip().startswith("{"):
        try:
            spec = json.loads(spec)
        except json.JSONDecodeError as error:
            raise TargetSpecError(
                f"the target {spec!r} is not valid JSON: {error}",
                remedy='write a kind such as "cpu", or JSON with the key "kind"',
            ) from error
    if isinstance(spec, Mapping):
        options = dict(spec)
        kind = options.pop("kind", None)
        if not isinstance(kind, str):
            raise TargetSpecError(f'the target {spec!r} has no text under "kind"', remedy=_ACCEPTED)
        return kind.strip(), options
    if isinstance(spec, str):
        return _parse_kind(spec.strip()), {}
    raise TargetSpecError(f"a target cannot be a {type(spec).__name__}: {spec!r}", remedy=_ACCEPTED)


_ACCEPTED = 'write a kind ("cpu"), a mapping ({"kind": "cpu", …}), "auto", or a Target'


def _parse_kind(text: str) -> str:
    if not text or any(character.isspace() for character in text) or text.startswith("-"):
        raise TargetSpecError(
            f"the target {text!r} is not the name of a kind",
            remedy='options are given in a mapping: {"kind": "cpu", "arch": "host"}',
        )
    return text


def _target(kind: str, options: Mapping[str, Any]) -> Target:
    backend = manager.registry().backend_of_kind(kind)
    target = manager.resolve(backend.parse_target)(kind, options)
    if not isinstance(target, Target) or target.backend != backend.name:
        raise BackendManifestError(
            f"parse_target of backend {backend.name!r} returned {target!r}, expected a Target of that backend",
            remedy="correct the plugin",
        )
    return target


def automatic_backend() -> str:
    """The name of the backend that `auto` takes: of those that can run here, the one of the highest priority.

    Raises:
        NoTargetError: none can run here.
    """
    found = {name: manager.detection(name) for name in sorted(manager.backends())}
    usable = [name for name, state in found.items() if state.available and state.priority > Priority.NEVER]
    if not usable:
        raise NoTargetError(
            "no installed backend can run on this machine: " + "; ".join(_reasons(found)),
            remedy="python -m pip install tile-cpu, or name a target to compile for absent hardware",
        )
    return max(usable, key=lambda name: found[name].priority)


def _reasons(found: Mapping[str, Detection]) -> list[str]:
    states = [f"{name}: {'only when named' if state.available else state.reason}" for name, state in found.items()]
    registry = manager.registry()
    usable = registry.backends()
    states += [f"{p.name}: failed to import ({p.origin}): {p.error}" for p in registry.failures()]
    clashing = {p.name for p in registry.plugins if p.backend is not None and p.name not in usable}
    states += [f"{name}: claimed by several distributions" for name in sorted(clashing)]
    return states or ["no backend is installed"]
