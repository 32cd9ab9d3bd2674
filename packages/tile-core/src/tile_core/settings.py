"""Settings: every `TILE_*` environment variable of tile-core, one typed descriptor each.

The environment is read at each access, so that a test or a notebook can change it at any time; `override` changes
values for a block of code without touching the environment, and only for the current thread or task. A backend has a
class of its own beside this one, named by its manifest.

>>> settings.cache
True
>>> with settings.override(cache=False, num_threads=2):
...     settings.cache, settings.num_threads
(False, 2)
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Generic, Self, TypeVar, overload

from tile_core.errors.plugins import SettingError

T = TypeVar("T")
Parser = Callable[[str], T]

_TRUE = frozenset({"1", "true", "yes", "on"})
_FALSE = frozenset({"0", "false", "no", "off"})


@dataclass(frozen=True)
class Kind(Generic[T]):
    """A type of setting: how text becomes a value (`None` for text that is not accepted) and which values are right."""

    accepted: str
    parse: Callable[[str], T | None]
    valid: Callable[[object], bool]


def _parse_flag(text: str) -> bool | None:
    lowered = text.strip().lower()
    return True if lowered in _TRUE else False if lowered in _FALSE else None


FLAG: Kind[bool] = Kind("1, true, yes, on or 0, false, no, off", _parse_flag, lambda value: isinstance(value, bool))
TEXT: Kind[str] = Kind("text", lambda text: text.strip() or None, lambda value: isinstance(value, str) and value != "")
PATH: Kind[Path] = Kind("a path", lambda text: Path(text).expanduser(), lambda value: isinstance(value, Path))


def integer(low: int, high: int | None = None) -> Kind[int]:
    """Whole numbers from `low` to `high`, both included."""
    accepted = f"a whole number, {low} or more" if high is None else f"a whole number from {low} to {high}"

    def valid(value: object) -> bool:
        if not isinstance(value, int) or isinstance(value, bool):
            return False
        return value >= low and (high is None or value <= high)

    def parse(text: str) -> int | None:
        digits = text.strip()
        value = int(digits) if digits.removeprefix("-").isdecimal() and digits.isascii() else None
        return value if valid(value) else None

    return Kind(accepted, parse, valid)


def choice(*accepted: str) -> Kind[str]:
    """One of several words."""
    words = " or ".join(accepted)
    return Kind(words, lambda text: text.strip() if text.strip() in accepted else None, lambda value: value in accepted)


def optional(kind: Kind[T]) -> Kind[T | None]:
    """`kind`, or nothing: an override may also be `None`."""
    return Kind(kind.accepted, kind.parse, lambda value: value is None or kind.valid(value))


class Setting(Generic[T]):
    """One variable. `changes_code` says that compiled code depends on it: such settings are part of the cache key."""

    name: str

    def __init__(
        self,
        variable: str,
        kind: Kind[T],
        default: T | Callable[[], T],
        doc: str,
        *,
        shown_default: str = "",
        changes_code: bool = False,
    ) -> None:
        self.variable = variable
        self.kind = kind
        self._default = default
        self.doc = doc
        self.shown_default = shown_default
        self.changes_code = changes_code
        self.__doc__ = doc

    @property
    def default(self) -> T:
        """The value where neither the environment nor an override says anything."""
        return self._default() if callable(self._default) else self._default

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...
    @overload
    def __get__(self, instance: Settings, owner: type) -> T: ...
    def __get__(self, instance: Settings | None, owner: type) -> Self | T:
        if instance is None:
            return self
        overrides = _overrides.get()
        if self.variable in overrides:
            value: T = overrides[self.variable]
            return value
        text = os.environ.get(self.variable, "")
        return self.default if text == "" else self._parse(text)

    def __set__(self, instance: Settings, value: T) -> None:
        raise AttributeError(
            f"settings are not assigned: set the environment variable {self.variable}, "
            f"or write `with settings.override({self.name}={value!r}):`"
        )

    def _parse(self, text: str) -> T:
        value = self.kind.parse(text)
        if value is None:
            raise SettingError(
                f"{self.variable} is {text!r}, accepted is {self.kind.accepted}",
                remedy=f"correct or unset {self.variable}: {self.doc[0].lower()}{self.doc[1:]}",
            )
        return value

    def row(self) -> Row:
        """This setting's line in the table of settings."""
        default = self.shown_default or _show(self.default)
        return Row(self.variable, default, self.kind.accepted, self.changes_code, self.doc)

    def check(self, value: object) -> None:
        """Refuse an override of the wrong type or range."""
        if not self.kind.valid(value):
            raise SettingError(
                f"the override {self.name} = {value!r} is not accepted: it must be {self.kind.accepted}",
                remedy="`tile env` prints every setting with what it accepts",
            )


_overrides: ContextVar[Mapping[str, Any]] = ContextVar("tile_settings", default=MappingProxyType({}))


@dataclass(frozen=True)
class Row:
    """One line of the table of settings, as shown by `tile env` and in the documentation."""

    variable: str
    default: str
    accepted: str
    changes_code: bool
    doc: str


class Settings:
    """A group of settings. A backend subclasses this for its own variables."""

    @classmethod
    def all(cls) -> tuple[Setting[Any], ...]:
        """Every setting of this group, in the order of definition."""
        members = (member for base in reversed(cls.__mro__) for member in vars(base).values())
        return tuple(member for member in members if isinstance(member, Setting))

    @classmethod
    def table(cls) -> tuple[Row, ...]:
        """What there is: for the documentation and `tile env`."""
        return tuple(setting.row() for setting in cls.all())

    @contextmanager
    def override(self, **values: Any) -> Iterator[None]:
        """Give settings other values within a `with` block, for this thread or task.

        Raises:
            SettingError: a name that is not a setting of this group, or a value that it does not accept.
        """
        known = {setting.name: setting for setting in self.all()}
        for name, value in values.items():
            if name not in known:
                names = ", ".join(sorted(known))
                raise SettingError(f"there is no setting {name!r}", remedy=f"known settings: {names}")
            known[name].check(value)
        changed = {known[name].variable: value for name, value in values.items()}
        token = _overrides.set(MappingProxyType({**_overrides.get(), **changed}))
        try:
            yield
        finally:
            _overrides.reset(token)

    def code_key(self) -> dict[str, Any]:
        """Variable to value for the settings that change code, as JSON values: a part of the cache key."""
        return {setting.variable: _json(getattr(self, setting.name)) for setting in self.all() if setting.changes_code}

    def source(self, setting: Setting[Any]) -> str:
        """Where the current value comes from: `override`, `environment` or `default`."""
        if setting.variable in _overrides.get():
            return "override"
        return "environment" if os.environ.get(setting.variable) else "default"


def _json(value: object) -> object:
    return str(value) if isinstance(value, Path) else value


def _show(value: object) -> str:
    return "" if value is None else str(int(value)) if isinstance(value, bool) else str(value)


def _default_cache_dir() -> Path:
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base and Path(base).is_absolute() else Path("~/.cache").expanduser()) / "tile"


class CoreSettings(Settings):
    """The settings of tile-core."""

    cache = Setting("TILE_CACHE", FLAG, True, "Whether compiled kernels are kept on disk and read back.")
    cache_dir = Setting(
        "TILE_CACHE_DIR",
        PATH,
        _default_cache_dir,
        "The directory of the kernel cache.",
        shown_default="$XDG_CACHE_HOME/tile or ~/.cache/tile",
    )
    cache_max_bytes: Setting[int | None] = Setting(
        "TILE_CACHE_MAX_BYTES",
        optional(integer(0)),
        None,
        "The most bytes the kernel cache may hold; the kernels longest unused are removed first.",
        shown_default="no bound",
    )
    target = Setting("TILE_TARGET", TEXT, "auto", "The target used where a kernel names none: a kind, JSON, or `auto`.")
    execution = Setting(
        "TILE_EXECUTION",
        choice("native", "emulate"),
        "native",
        "Whether kernels run on the target's hardware or, for backends that have an emulator, emulated on the host.",
    )
    plugins_strict = Setting(
        "TILE_PLUGINS_STRICT", FLAG, False, "Whether a backend that fails to load is an error even where it is unused."
    )
    num_threads: Setting[int | None] = Setting(
        "TILE_NUM_THREADS",
        optional(integer(1)),
        None,
        "How many host threads a kernel on the host may use.",
        shown_default="every core this process may use",
    )
    autotune_cache = Setting(
        "TILE_AUTOTUNE_CACHE", FLAG, True, "Whether the choices of the autotuner are kept in the cache directory."
    )
    autotune_workers: Setting[int | None] = Setting(
        "TILE_AUTOTUNE_WORKERS",
        optional(integer(1)),
        None,
        "How many candidates the autotuner compiles at once.",
        shown_default="one a core",
    )
    emulate_check = Setting(
        "TILE_EMULATE_CHECK",
        FLAG,
        False,
        "Whether emulated kernels check bounds, unwritten memory, races, barriers and what C leaves undefined.",
        changes_code=True,
    )
    debug = Setting(
        "TILE_DEBUG",
        integer(0, 4),
        0,
        "How much is reported on stderr: 1 one line a compile, 2 its passes and their times, 3 the IR after each pass, "
        "4 the printed source.",
    )


settings = CoreSettings()
