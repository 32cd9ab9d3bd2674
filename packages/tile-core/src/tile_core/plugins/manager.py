"""Discovery of backends.

Entry points of the group `tile.backends` are loaded one by one, and a plugin that fails is kept as a failure rather
than raised: a broken accelerator package must not take down a program that runs on the host. The failure is raised when
its backend is asked for. `TILE_PLUGINS_STRICT=1` raises at once, for CI.
"""

from __future__ import annotations

import functools
import importlib
import traceback
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from importlib import metadata
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import pluggy

from tile_core.errors.base import TileError
from tile_core.errors.plugins import (
    BackendAttributeError,
    BackendClashError,
    BackendImportError,
    BackendManifestError,
    BackendNotInstalledError,
    HookResultError,
    UnknownTargetError,
)
from tile_core.errors.suggest import did_you_mean
from tile_core.plugins import hookspecs
from tile_core.plugins.manifest import Backend, Detection
from tile_core.settings import settings

if TYPE_CHECKING:
    from tile_core.passes.base import Edit, Pass
    from tile_core.targets.target import Target

GROUP = "tile.backends"


@dataclass(frozen=True)
class Plugin:
    """An entry point that was found, and what became of it: a backend, only hooks (`backend` is None), or a failure."""

    name: str
    reference: str
    distribution: str
    version: str
    backend: Backend | None = None
    error: Exception | None = None

    @property
    def origin(self) -> str:
        """The distribution and its version, for messages."""
        return f"{self.distribution} {self.version}"

    @property
    def traceback(self) -> str:
        """The traceback of the failure, empty for a plugin that was loaded."""
        return "" if self.error is None else "".join(traceback.format_exception(self.error))


@dataclass(frozen=True)
class Registry:
    """Everything discovery found. Build one with `load`; `registry()` is the one of this process."""

    plugins: tuple[Plugin, ...]
    manager: pluggy.PluginManager = field(repr=False)

    def backends(self) -> Mapping[str, Backend]:
        """The usable backends by name: loaded, and not in a clash."""
        loaded = [plugin.backend for plugin in self.plugins if plugin.backend is not None]
        return MappingProxyType({b.name: b for b in loaded if not self._clashes(b)})

    def failures(self) -> tuple[Plugin, ...]:
        """The plugins that could not be loaded."""
        return tuple(plugin for plugin in self.plugins if plugin.error is not None)

    def backend(self, name: str) -> Backend:
        """The backend called `name`.

        Raises:
            BackendNotInstalledError, BackendImportError, BackendClashError
        """
        claims = self._claims_of_name(name)
        if not claims:
            raise not_installed(name, self.backends())
        return self._only(name, "name", claims)

    def backend_of_kind(self, kind: str) -> Backend:
        """The backend that compiles for the target kind `kind`.

        Raises:
            UnknownTargetError: no installed or known backend has this kind.
            BackendNotInstalledError, BackendImportError, BackendClashError
        """
        claims = [p for p in self.plugins if p.backend is not None and kind in p.backend.target_kinds]
        claims = claims or [p for p in self.plugins if p.error is not None and p.name == kind]
        if claims:
            backend = self._only(kind, "target kind", claims)
            return self.backend(backend.name)
        if kind in known_backends():
            raise self._broken_or_missing(kind)
        kinds = sorted(k for b in self.backends().values() for k in b.target_kinds)
        raise UnknownTargetError(
            f"no backend compiles for target kind {kind!r}",
            remedy=did_you_mean(kind, kinds, "").replace("?", "? ")
            + f'installed backends compile for: {", ".join(kinds) or "nothing"}; "auto" chooses among them'
            + self._unusable(),
        )

    def _unusable(self) -> str:
        """The plugins that are installed but cannot be used, for messages."""
        broken = [f"{plugin.name} ({plugin.origin}) failed to import" for plugin in self.failures()]
        usable = self.backends()
        clashing = [f"{p.name} ({p.origin}) clashes" for p in self.plugins if p.backend and p.name not in usable]
        return "".join(f"; {text}" for text in (*broken, *clashing))

    def _broken_or_missing(self, kind: str) -> TileError:
        distribution = known_backends()[kind]
        for plugin in self.failures():
            if _normal(plugin.distribution) == distribution:
                return import_failure(plugin)
        return not_installed(kind, self.backends())

    def _claims_of_name(self, name: str) -> list[Plugin]:
        return [p for p in self.plugins if p.name == name and (p.backend is not None or p.error is not None)]

    def _clashes(self, backend: Backend) -> bool:
        others = [p for p in self.plugins if p.backend is not None and p.backend is not backend]
        kinds = set(backend.target_kinds)
        return any(p.name == backend.name or kinds.intersection(p.backend.target_kinds) for p in others if p.backend)

    def _only(self, wanted: str, what: str, claims: list[Plugin]) -> Backend:
        if len(claims) > 1:
            raise clash(wanted, what, claims)
        (plugin,) = claims
        if plugin.backend is None:
            raise import_failure(plugin)
        return plugin.backend

    def clashes(self) -> tuple[BackendClashError, ...]:
        """One error for each name or target kind that several distributions claim."""
        loaded = [plugin for plugin in self.plugins if plugin.backend is not None]
        claims: dict[tuple[str, str], list[Plugin]] = defaultdict(list)
        for plugin in loaded:
            claims["name", plugin.name].append(plugin)
            for kind in plugin.backend.target_kinds if plugin.backend is not None else ():
                claims["target kind", kind].append(plugin)
        return tuple(clash(wanted, what, found) for (what, wanted), found in claims.items() if len(found) > 1)

    def check(self) -> None:
        """Raise the first failure or clash: what `TILE_PLUGINS_STRICT=1` does at once."""
        for plugin in self.failures():
            raise import_failure(plugin)
        for error in self.clashes():
            raise error


def load(entry_points: Iterable[metadata.EntryPoint]) -> Registry:
    """Load plugins one by one; failures are kept, not raised.

    Raises:
        BackendImportError, BackendClashError: only with `TILE_PLUGINS_STRICT=1`.
    """
    manager = pluggy.PluginManager(hookspecs.PROJECT)
    manager.add_hookspecs(hookspecs)
    ordered = sorted(entry_points, key=lambda point: (point.name, _distribution(point)))
    # pluggy calls the plugin that was registered last first.
    plugins = [_load_one(manager, point) for point in reversed(ordered)]
    found = Registry(tuple(reversed(plugins)), manager)
    if settings.plugins_strict:
        found.check()
    return found


def _load_one(manager: pluggy.PluginManager, point: metadata.EntryPoint) -> Plugin:
    distribution = _distribution(point)
    version = point.dist.version if point.dist is not None else "unknown"
    plugin = functools.partial(Plugin, point.name, point.value, distribution, version)
    identity = f"{distribution}:{point.name}"
    try:
        module = point.load()
        manager.register(module, identity)
        manager.check_pending()
        backend = _manifest(manager, module, point.name, distribution)
    except Exception as error:  # noqa: BLE001 - foreign code: what it raises is kept, and raised when it is asked for
        if manager.has_plugin(identity):
            manager.unregister(name=identity)
        return plugin(error=error)
    return plugin(backend=backend)


def _manifest(manager: pluggy.PluginManager, module: object, name: str, distribution: str) -> Backend | None:
    others = [other for other in manager.get_plugins() if other is not module]
    results = manager.subset_hook_caller("tile_register_backend", others)()
    if not results:
        return None
    (backend,) = results
    if not isinstance(backend, Backend):
        raise HookResultError(
            f"tile_register_backend of {distribution} returned {type(backend).__name__}, expected a Backend or None",
            remedy="return tile_core.plugins.Backend(...), or None for no backend",
        )
    if backend.name != name:
        raise BackendManifestError(
            f"{distribution} registers the backend {backend.name!r} under the entry point {name!r}",
            remedy="give the entry point in the group `tile.backends` the name of the backend",
        )
    return backend


def _distribution(point: metadata.EntryPoint) -> str:
    return point.dist.name if point.dist is not None else "an unknown distribution"


def _normal(distribution: str) -> str:
    return distribution.lower().replace("_", "-")


def not_installed(name: str, installed: Iterable[str]) -> BackendNotInstalledError:
    """The error for a backend that no distribution offers here."""
    distribution = known_backends().get(name)
    names = ", ".join(sorted(installed)) or "none"
    remedy = f"python -m pip install {distribution}" if distribution else "install the distribution that provides it"
    return BackendNotInstalledError(
        f"the backend {name!r} is not installed (installed backends: {names})",
        remedy=remedy,
    )


def import_failure(plugin: Plugin) -> BackendImportError:
    """The error for a plugin that is installed but failed to load; the plugin's own exception is its cause."""
    assert plugin.error is not None
    failure = BackendImportError(
        f"the backend {plugin.name!r} is installed ({plugin.origin}) but failed to import: "
        f"{type(plugin.error).__name__}: {plugin.error}",
        remedy=f"python -m pip install --force-reinstall {plugin.distribution}; `tile plugins` prints the traceback",
    )
    failure.__cause__ = plugin.error
    return failure


def clash(wanted: str, what: str, claims: list[Plugin]) -> BackendClashError:
    """The error for a name or a kind that several distributions claim."""
    origins = " and ".join(f"{plugin.origin} ({plugin.reference})" for plugin in claims)
    return BackendClashError(
        f"the {what} {wanted!r} is claimed by {len(claims)} installed distributions: {origins}",
        remedy=f"uninstall one of them: python -m pip uninstall {claims[-1].distribution}",
    )


@functools.cache
def known_backends() -> Mapping[str, str]:
    """Target kinds of backends that exist as distributions, with the distribution's name."""
    from importlib import resources

    import yaml

    text = resources.files("tile_core.plugins").joinpath("known_backends.yaml").read_text("utf-8")
    return MappingProxyType(dict(yaml.safe_load(text)))


@functools.cache
def registry() -> Registry:
    """The plugins of this process, found on first use."""
    return load(metadata.entry_points(group=GROUP))


def refresh() -> None:
    """Forget what was found, so that the next question looks again: after an installation in a running process."""
    registry.cache_clear()
    detection.cache_clear()


def backends() -> Mapping[str, Backend]:
    """The usable backends of this process by name."""
    return registry().backends()


def backend(name: str) -> Backend:
    """The backend called `name` in this process.

    Raises:
        BackendNotInstalledError, BackendImportError, BackendClashError
    """
    return registry().backend(name)


@functools.cache
def detection(name: str) -> Detection:
    """Whether the backend called `name` can run on this machine. Asked once a process; never raises.

    A `detect` that fails is a backend that is not available, with the failure as the reason.
    """
    try:
        found = resolve(backend(name).detect)()
    except TileError as error:
        return Detection(available=False, reason=error.message)
    except Exception as error:  # noqa: BLE001 - foreign code: its failure must not stop another backend's choice
        return Detection(available=False, reason=f"detection failed: {type(error).__name__}: {error}")
    if isinstance(found, Detection):
        return found
    return Detection(available=False, reason=f"detect returned {type(found).__name__}, expected Detection")


def hooks() -> Any:
    """The hook callers of this process's plugins: `hooks().tile_edit_pipeline(target=…, pipeline=…)`."""
    return registry().manager.hook


def plugin_edits(target: Target, pipeline: tuple[Pass, ...]) -> tuple[Edit, ...]:
    """The edits that the plugins' `tile_edit_pipeline` makes to `pipeline`, in the order of the plugins.

    Raises:
        HookResultError: a plugin returned something else than edits.
    """
    found: list[Edit] = []
    for edits in hooks().tile_edit_pipeline(target=target, pipeline=pipeline):
        if not isinstance(edits, list | tuple) or not all(hasattr(edit, "apply") for edit in edits):
            raise HookResultError(
                f"a plugin's tile_edit_pipeline returned {edits!r}, expected a tuple of edits",
                remedy="use insert_before, insert_after, replace and drop of tile_core.passes.pipeline",
            )
        found.extend(edits)
    return tuple(found)


@functools.cache
def resolve(reference: str) -> Any:
    """The object that `"module:attribute"` names, imported on first use.

    Raises:
        BackendAttributeError: the module cannot be imported or has no such attribute.

    >>> resolve("math:pi")
    3.141592653589793
    """
    module_name, _, attribute = reference.partition(":")
    try:
        value: Any = importlib.import_module(module_name)
        for part in attribute.split("."):
            value = getattr(value, part)
    except TileError:
        raise
    except Exception as error:
        raise BackendAttributeError(
            f"{reference!r} cannot be loaded: {type(error).__name__}: {error}",
            remedy=f"reinstall the distribution that holds {module_name.partition('.')[0]!r}, or correct its manifest",
        ) from error
    return value
