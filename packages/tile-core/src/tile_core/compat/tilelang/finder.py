"""The finder that answers `import tilelang…` in this process.

Each module is made of a name table: the `__all__` of a module of `modules/`, or a backend's dialect. It counts as a
package, so that Python asks the finder for whatever is imported from it, and the answer to an unknown name says more
than "cannot import name".
"""

from __future__ import annotations

import importlib
import sys
import types
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from typing import Any, NoReturn

from tile_core.compat.tilelang.table import table
from tile_core.errors.base import TileError
from tile_core.errors.compat import CompatAttributeError, CompatImportError

ROOT = "tilelang"
_HOMES = f"{__package__}.modules"


class Facade(types.ModuleType):
    """A module of TileLang. A name of its own is never replaced by a submodule of the same name, as `tilelang.jit`."""

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(value, types.ModuleType) and name in self.__dict__.get("__all__", ()):
            return
        super().__setattr__(name, value)


class Refused:
    """An absent name that a program has imported: using it is error TILE-E0901, importing it does no harm."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __call__(self, *arguments: Any, **keywords: Any) -> NoReturn:
        """Refuse a call, whatever its arguments are."""
        raise self._error()

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        raise self._error()

    def __repr__(self) -> str:
        return f"<{self._name}, which does not exist here>"

    def _error(self) -> CompatAttributeError:
        message, remedy = _explain(self._name)
        return CompatAttributeError(message, remedy=remedy)


class FacadeLoader(Loader):
    """Fills a facade from its home."""

    def create_module(self, spec: ModuleSpec) -> types.ModuleType:
        """A facade."""
        return Facade(spec.name, f"`{spec.name}` as this language has it.")

    def exec_module(self, module: types.ModuleType) -> None:
        """Let the names come from the home, each on its first use."""
        home = _home(module.__name__)
        names = [] if home is None else list(home.__all__)

        def lookup(name: str) -> Any:
            full = f"{module.__name__}.{name}"
            if module.__name__ in table().dialects and name in _replacements().__all__:
                return getattr(_replacements(), name)
            if home is not None and (name in names or not _is_facade(home)):
                value = getattr(home, name)
                module.__dict__[name] = value
                return value
            if is_module(full):
                return importlib.import_module(full)
            if full in table().refused_on_use:
                return Refused(full)
            if name.startswith("__") and name.endswith("__"):
                raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}")
            message, remedy = _explain(full)
            raise CompatAttributeError(message, remedy=remedy)

        module.__dict__.update(__all__=names, __getattr__=lookup, __dir__=lambda: sorted([*module.__dict__, *names]))


def _replacements() -> types.ModuleType:
    """The module whose names stand in place of a dialect's own."""
    return importlib.import_module(f"{_HOMES}.language")


def _is_facade(home: types.ModuleType) -> bool:
    """Whether a home is one of `modules/`; the others are dialects, which explain their own names."""
    return home.__name__.startswith(_HOMES)


def _home(name: str) -> types.ModuleType | None:
    """The module whose names the TileLang module `name` has."""
    known = table()
    if name in known.dialects:
        return importlib.import_module(dialect_of(name))
    home = known.modules[name]
    return importlib.import_module(f"{_HOMES}.{home}") if home else None


def dialect_of(name: str) -> str:
    """The language module that the TileLang module `name` stands for.

    Raises:
        TileError: its backend is not installed or cannot be loaded.
    """
    from tile_core.errors.plugins import BackendNotInstalledError
    from tile_core.plugins.manager import backend

    portable, wanted = "tile_core.language", table().dialects[name]
    if not wanted:
        return portable
    try:
        return backend(wanted).dialect
    except BackendNotInstalledError:
        if name == f"{ROOT}.language":
            return portable
        raise


def is_module(name: str) -> bool:
    """Whether TileLang's dotted `name` is a module that exists here."""
    return name in table().modules or name in table().dialects


def _explain(name: str) -> tuple[str, str]:
    """What to say about a name that does not exist here, and what to do."""
    reason = table().reason(name)
    if reason:
        return f"{name} of TileLang does not exist here", reason
    return (
        f"there is no {name} here",
        f"names follow TileLang {table().version}; docs/migrating.md lists the differences",
    )


class Finder(MetaPathFinder):
    """Answers for `tilelang` and everything below it."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: types.ModuleType | None = None
    ) -> ModuleSpec | None:
        """The spec of a module that exists here.

        Raises:
            CompatImportError: TileLang's module or name does not exist here.
        """
        if fullname != ROOT and not fullname.startswith(f"{ROOT}."):
            return None
        if is_module(fullname):
            return ModuleSpec(fullname, FacadeLoader(), is_package=True)
        raise self._missing(fullname)

    def _missing(self, fullname: str) -> CompatImportError:
        parent, _, name = fullname.rpartition(".")
        if parent in table().dialects:
            try:
                getattr(importlib.import_module(parent), name)
            except TileError as error:
                return CompatImportError(error.message, remedy=error.remedy, span=error.span)
        message, remedy = _explain(fullname)
        return CompatImportError(message, remedy=remedy)


_finder = Finder()


def install() -> None:
    """Let `import tilelang` stand for this language from now on, in this process.

    Raises:
        CompatImportError: TileLang itself is already imported.
    """
    if _finder in sys.meta_path:
        return
    if ROOT in sys.modules:
        raise CompatImportError("tilelang itself is already imported in this process", remedy="start the runner first")
    sys.meta_path.insert(0, _finder)


def uninstall() -> None:
    """Forget the facades."""
    if _finder in sys.meta_path:
        sys.meta_path.remove(_finder)
        for name in [name for name in sys.modules if name == ROOT or name.startswith(f"{ROOT}.")]:
            del sys.modules[name]


@contextmanager
def installed() -> Iterator[None]:
    """`install` for a block."""
    install()
    try:
        yield
    finally:
        uninstall()
