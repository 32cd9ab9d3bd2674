"""Dialects: a module of the tile language is a table from names to the modules that define them, resolved on first use.

A backend's dialect is the portable table with its own entries added or put in place of portable ones:

    from tile_core.language import dialect

    DIALECT = dialect("example", __name__, {"tile_example.language.kernel": ("Kernel",)})
    __all__ = list(DIALECT.exports)
    __getattr__ = DIALECT.lookup

Nothing is imported until a name is used, so importing a dialect is cheap.
"""

from __future__ import annotations

import importlib
import sys
import types
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NoReturn

from tile_core.errors.suggest import did_you_mean
from tile_core.language._names import PORTABLE_NAMES

Names = Mapping[str, Iterable[str]]


@dataclass(frozen=True)
class Dialect:
    """The names of one language module. `homes` maps a name to the module that defines it."""

    name: str
    module: str
    homes: Mapping[str, str]
    unimplemented: frozenset[str] = frozenset()

    @cached_property
    def exports(self) -> tuple[str, ...]:
        """Every name, sorted."""
        return tuple(sorted(self.homes))

    def lookup(self, name: str) -> Any:
        """What `name` stands for; the module's `__getattr__`.

        Raises:
            DialectNameError: the dialect has no such name. It says which installed dialect has.
            DialectNameUnimplementedError: the dialect will have the name.
        """
        home = self.homes.get(name)
        if home is None:
            self._refuse(name)
        value = getattr(importlib.import_module(home), name)
        vars(sys.modules[self.module])[name] = value
        return value

    def _refuse(self, name: str) -> NoReturn:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(f"module {self.module!r} has no attribute {name!r}")
        from tile_core.errors.backends import DialectNameUnimplementedError
        from tile_core.errors.frontend import DialectNameError
        from tile_core.frontend.positions import caller_span

        if name in self.unimplemented:
            raise DialectNameUnimplementedError(
                f"{name!r} of the {self.name} language is not implemented yet",
                remedy="use a portable name: dir(T) lists what there is",
                span=caller_span(),
            )
        raise DialectNameError(
            f"the {self.name} language has no name {name!r}", remedy=_remedy(self, name), span=caller_span()
        )


def dialect(
    name: str,
    module: str,
    own: Names | None = None,
    *,
    without: Iterable[str] = (),
    unimplemented: Iterable[str] = (),
) -> Dialect:
    """The dialect called `name` of the language module `module`.

    `own` maps a module to the names that it defines, which add to the portable ones or replace them; `without` are
    portable names that the backend cannot have; `unimplemented` are names of the dialect that do not exist yet.

    >>> "copy" in dialect("example", "tile_example.language", {"tile_example.language.ws": ("ws",)}).exports
    True
    """
    homes = {each: home for home, names in PORTABLE_NAMES.items() for each in names}
    for each in without:
        homes.pop(each, None)
    homes.update({each: home for home, names in (own or {}).items() for each in names})
    _protect(module, homes)
    return Dialect(name, module, homes, frozenset(unimplemented) - homes.keys())


def _protect(module: str, homes: Mapping[str, str]) -> None:
    """Keep the import system from putting a submodule in the place of a name, as `copy.py` of the function `T.copy`."""
    loaded = sys.modules.get(module)
    if loaded is None:
        return

    class LanguageModule(types.ModuleType):
        def __setattr__(self, name: str, value: Any) -> None:
            if not (isinstance(value, types.ModuleType) and name in homes):
                super().__setattr__(name, value)

    loaded.__class__ = LanguageModule


def _remedy(current: Dialect, name: str) -> str:
    others = [module for module in _installed_dialects() if module != current.module]
    having = [module for module in others if name in _names_of(module, "exports")]
    if having:
        return f"it belongs to {' and '.join(having)}: `import {having[0]} as T`"
    planned = [module for module in others if name in _names_of(module, "unimplemented")]
    if planned:
        return f"it belongs to {' and '.join(planned)}, where it is not implemented yet"
    return did_you_mean(name, current.exports, "dir(T) lists the names")


def _installed_dialects() -> list[str]:
    try:
        from tile_core.plugins import manager

        return sorted({backend.dialect for backend in manager.backends().values() if backend.dialect})
    except Exception:  # noqa: BLE001  # A broken plugin must not hide the error that is being reported.
        return []


def _names_of(module: str, kind: str) -> Iterable[str]:
    """The names of a dialect module, which keeps its table as `DIALECT`."""
    try:
        found: Iterable[str] = getattr(importlib.import_module(module).DIALECT, kind)
    except Exception:  # noqa: BLE001  # As above.
        return ()
    return found
