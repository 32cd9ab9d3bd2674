"""Which pass configs there are.

A misspelt option would otherwise be ignored, and the kernel compiled without what its author asked for. Backends name
theirs in their manifest, passes in `options`. A name of any installed backend is accepted for every target, so that one
kernel can carry the options of all targets that it is compiled for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tile_core.errors.runtime import PassConfigError
from tile_core.errors.suggest import did_you_mean
from tile_core.passes.pipeline import build_pipeline
from tile_core.plugins.manager import backends
from tile_core.plugins.manifest import Backend
from tile_core.targets.target import Target

CORE = ("tile.emulate_check",)
"""Read by tile-core itself: whether emulated kernels are checked, over the setting `TILE_EMULATE_CHECK`."""


def check_pass_configs(configs: Mapping[str, Any], backend: Backend, target: Target) -> None:
    """Refuse names that nobody reads.

    Raises:
        PassConfigError: a name that no installed backend and no pass of this target's pipeline declares.
    """
    known = {*CORE, *(name for manifest in backends().values() for name in manifest.pass_configs)}
    if known.issuperset(configs):
        return
    known.update(_of_passes(backend, target))
    for name in sorted(set(configs) - known):
        raise PassConfigError(
            f"there is no pass config {name!r}",
            remedy=did_you_mean(name, known, f"there are: {', '.join(sorted(known))}", count=3),
        )


def _of_passes(backend: Backend, target: Target) -> Iterable[str]:
    return (name for step in build_pipeline(backend, target) for name in getattr(step, "options", ()))
