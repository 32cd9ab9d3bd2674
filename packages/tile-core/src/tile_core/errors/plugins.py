"""Errors raised by plugins, targets, settings, the printer base and the command line (E0400 to E0499)."""

from __future__ import annotations

from tile_core.errors.base import TileError

__all__ = [
    "BackendAttributeError",
    "BackendClashError",
    "BackendImportError",
    "BackendManifestError",
    "BackendNotInstalledError",
    "CapabilityError",
    "CommandLineError",
    "HookResultError",
    "NoTargetError",
    "SettingError",
    "TargetSpecError",
    "TargetTableError",
    "UnknownTargetError",
    "UnprintableError",
]


class BackendManifestError(TileError, ValueError):
    """A plugin handed over a manifest that cannot be right.

    A `Backend` checks itself when it is constructed: names are lower-case identifiers, every heavy part is a string
    `"module:attribute"`, and there is at least one target kind. The message names the field and the value. Only the
    author of the plugin can correct it; users can uninstall the plugin or install another version.
    """

    code = "TILE-E0401"


class BackendNotInstalledError(TileError, LookupError):
    """No installed distribution offers the backend or target that was asked for.

    The message gives the `pip install` line where the name is one that we know. A backend becomes visible by being
    installed into the same environment: see `tile plugins`.
    """

    code = "TILE-E0402"
    kind = "environment"


class BackendImportError(TileError, ImportError):
    """The backend is installed, but its plugin could not be loaded.

    The message names the distribution, its version, and the exception; the traceback is attached as the cause. The
    backend's own requirements are usually missing or of another version: reinstall the distribution. Other backends are
    not affected. `TILE_PLUGINS_STRICT=1` raises this as soon as plugins are loaded.
    """

    code = "TILE-E0403"
    kind = "environment"


class BackendClashError(TileError, ValueError):
    """Two installed distributions claim one backend name or one target kind.

    Neither wins: which one runs must not depend on the order of installation. Uninstall one of the two that the message
    names.
    """

    code = "TILE-E0404"
    kind = "environment"


class BackendAttributeError(TileError, AttributeError):
    """A manifest points to a module or an attribute that does not exist or cannot be imported.

    Manifests name their heavy parts as `"module:attribute"` and these are imported on use. The message says which part
    of which backend it is.
    """

    code = "TILE-E0405"
    kind = "environment"


class UnknownTargetError(TileError, ValueError):
    """The target's kind is not one that any known backend compiles for.

    The message lists the kinds of the installed backends. `tile targets` shows them with their state.
    """

    code = "TILE-E0406"


class NoTargetError(TileError, RuntimeError):
    """`target="auto"` found no backend that can run on this machine.

    The message lists every installed backend with the reason why it is not available. Install a backend for the host
    (`pip install tile-cpu`), or name a target: compiling for absent hardware works, running does not.
    """

    code = "TILE-E0407"
    kind = "environment"


class TargetSpecError(TileError, ValueError):
    """A target was given in a form that cannot be understood.

    Accepted are a `Target`, a kind (`"cpu"`), `"auto"`, a mapping with the key `kind` and options
    (`{"kind": "cpu", "arch": "host"}`), and the same mapping as JSON text. Options are JSON values.
    """

    code = "TILE-E0408"


class TargetTableError(TileError, ValueError):
    """A backend's `targets.yaml` does not follow its schema.

    The message gives file, line and column, the field and what is accepted there. Only the author of the backend can
    correct it.
    """

    code = "TILE-E0409"


class SettingError(TileError, ValueError):
    """A `TILE_*` environment variable or an override holds a value that is not accepted.

    The message names the variable, the value and what is accepted. `tile env` prints all settings with their values.
    """

    code = "TILE-E0410"
    kind = "environment"


class CapabilityError(TileError, LookupError):
    """A fact was asked for that the target's table does not state.

    Facts come from the backend's `targets.yaml`. Ask with a default where the absence of the fact has a meaning.
    """

    code = "TILE-E0411"
    kind = "unsupported"


class UnprintableError(TileError, NotImplementedError):
    """A printer met an operation or a type that its language does not list.

    What a printer does not list has to be decomposed before printing. The message names the operation, the target and
    the line of the kernel that it came from.
    """

    code = "TILE-E0412"
    kind = "unsupported"


class CommandLineError(TileError, ValueError):
    """An argument of the command `tile` names something that is not there.

    For `tile compile FILE:FACTORY` the file must exist and the factory must be a kernel, or a function that returns
    one, at the top level of the file.
    """

    code = "TILE-E0413"


class HookResultError(TileError, TypeError):
    """A plugin's hook returned something that its specification does not allow.

    The message names the hook and the plugin's distribution. The specifications are in `tile_core.plugins.hookspecs`.
    """

    code = "TILE-E0414"
