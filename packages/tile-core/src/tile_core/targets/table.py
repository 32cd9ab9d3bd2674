"""Reads a backend's `targets.yaml`: which architectures there are and what each can do.

The file declares the backend's own facts with their types, so that a fact misspelled for one architecture is an error
with its line and column rather than a fact that is silently absent.

    default: generic                 # the architecture of a target that names none
    facts: {cores: int}              # the backend's own facts: bool, int, float, text, list or mapping
    common: {threads: false}         # holds for every architecture
    architectures:
      generic: {vector_bytes: 16, dtypes: [float32, int32], cores: 1}
      wide: {extends: generic, vector_bytes: 64}
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import resources
from types import MappingProxyType
from typing import Any

import yaml

from tile_core.collector import older_objects_set_aside
from tile_core.errors.plugins import TargetSpecError, TargetTableError
from tile_core.targets.target import Capabilities, Target, refuse_unknown

LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""The loader by libyaml where there is one: it reads ten times as fast, and every first compilation waits for it."""


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


@dataclass(frozen=True)
class _Type:
    """What a field accepts, in words and as a test."""

    accepted: str
    valid: Callable[[Any], bool]


_BOOL = _Type("true or false", lambda value: isinstance(value, bool))
_COUNT = _Type("a whole number of at least 1", _is_count)
_LIMIT = _Type("a whole number of at least 1, or null for no limit", lambda value: value is None or _is_count(value))
_NAMES = _Type(
    "a list of dtype names",
    lambda value: isinstance(value, list) and value != [] and all(isinstance(item, str) for item in value),
)

FIELDS: Mapping[str, _Type] = MappingProxyType(
    {
        "threads": _BOOL,
        "max_threads": _COUNT,
        "warp_size": _COUNT,
        "vector_bytes": _COUNT,
        "shared_bytes": _LIMIT,
        "dtypes": _NAMES,
    }
)
FACT_TYPES: Mapping[str, _Type] = MappingProxyType(
    {
        "bool": _BOOL,
        "int": _Type("a whole number", lambda value: isinstance(value, int) and not isinstance(value, bool)),
        "float": _Type("a number", lambda value: isinstance(value, int | float) and not isinstance(value, bool)),
        "text": _Type("text", lambda value: isinstance(value, str)),
        "list": _Type("a list", lambda value: isinstance(value, list)),
        "mapping": _Type("a mapping", lambda value: isinstance(value, dict)),
    }
)
REQUIRED = ("vector_bytes", "dtypes")
_ARCHITECTURE = "arch"
SECTIONS = ("default", "facts", "common", "architectures")


@dataclass(frozen=True)
class TargetTable:
    """The architectures of one backend and the facts about each."""

    default: str
    architectures: Mapping[str, Capabilities]

    def capabilities(self, architecture: str | None = None) -> Capabilities:
        """The facts about `architecture`; about the default one where it is `None`.

        Raises:
            TargetSpecError: the table does not list this architecture.
        """
        name = self.default if architecture is None else architecture
        if name not in self.architectures:
            known = ", ".join(self.architectures)
            raise TargetSpecError(f"there is no architecture {name!r}", remedy=f"known architectures: {known}")
        return self.architectures[name]

    def target(
        self,
        backend: str,
        kind: str,
        options: Mapping[str, Any],
        *,
        name: Callable[[str], str] = str,
        default: str | None = None,
    ) -> Target:
        """The target of a backend whose only option is `arch`.

        Args:
            backend: the backend's name, which is also the kind of its targets.
            kind: the kind that was written, for messages.
            options: what was written beside it.
            name: from how an architecture may be spelled to its name in the table.
            default: the architecture where none is given; by default the table's.

        Raises:
            TargetSpecError: another option, or an architecture that the table does not list.
        """
        refuse_unknown(kind, options, (_ARCHITECTURE,))
        chosen = name(str(options.get(_ARCHITECTURE, default or self.default)))
        self.capabilities(chosen)
        return Target(backend, backend, {_ARCHITECTURE: chosen})


def load_table(package: str, name: str = "targets.yaml") -> TargetTable:
    """The table in the file `name` of `package`.

    Raises:
        TargetTableError: the file breaks the schema; the message gives line and column.
    """
    text = resources.files(package).joinpath(name).read_text("utf-8")
    with older_objects_set_aside():
        return parse_table(text, f"{package.replace('.', '/')}/{name}")


def parse_table(text: str, file: str) -> TargetTable:
    """The table written in `text`; `file` is its name in messages.

    Raises:
        TargetTableError: the text breaks the schema; the message gives line and column.
    """
    return _Reader(file).table(text)


@dataclass(frozen=True)
class _Item:
    """A mapping's entry: where its key stands, and its value."""

    key: yaml.Node
    value: yaml.Node


@dataclass(frozen=True)
class _Reader:
    file: str

    def table(self, text: str) -> TargetTable:
        try:
            root = yaml.compose(text, LOADER)
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            place = "" if mark is None else f":{mark.line + 1}:{mark.column + 1}"
            raise TargetTableError(
                f"{self.file}{place}: not valid YAML: {error.problem}",
                remedy="correct the file; the message says where",
            ) from error
        if root is None:
            raise TargetTableError(
                f"{self.file}:1:1: the file is empty, expected {', '.join(SECTIONS)}",
                remedy="see `targets.yaml` of tile-cpu for the form",
            )
        sections = self.mapping(root, "the file", SECTIONS)
        facts = self.fact_types(sections)
        architectures = self.architectures(root, sections, facts)
        return TargetTable(self.default(root, sections, architectures), MappingProxyType(architectures))

    def default(self, root: yaml.Node, sections: Mapping[str, _Item], architectures: Mapping[str, Capabilities]) -> str:
        item = self.required(sections, "default", root, "the file")
        name = self.value(item.value)
        if name not in architectures:
            raise self.error(item.value, f"default is {name!r}, expected one of {', '.join(architectures)}")
        return str(name)

    def fact_types(self, sections: Mapping[str, _Item]) -> dict[str, _Type]:
        if "facts" not in sections:
            return {}
        found: dict[str, _Type] = {}
        for name, item in self.mapping(sections["facts"].value, "facts").items():
            kind = self.value(item.value)
            if name in FIELDS or name == "extends":
                raise self.error(item.key, f"the fact {name!r} has the name of a field that every target has")
            if kind not in FACT_TYPES:
                raise self.error(item.value, f"the type of fact {name!r} is {kind!r}, expected {', '.join(FACT_TYPES)}")
            found[name] = FACT_TYPES[kind]
        return found

    def architectures(
        self, root: yaml.Node, sections: Mapping[str, _Item], facts: Mapping[str, _Type]
    ) -> dict[str, Capabilities]:
        types = {**FIELDS, **facts}
        common = self.entries(sections["common"].value, "common", types) if "common" in sections else {}
        item = self.required(sections, "architectures", root, "the file")
        stated: dict[str, dict[str, Any]] = {}
        found: dict[str, Capabilities] = {}
        for name, entry in self.mapping(item.value, "architectures").items():
            values = self.inherited(entry.value, name, types, stated)
            stated[name] = {**common, **values}
            found[name] = self.capabilities(entry.key, name, stated[name], facts)
        if not found:
            raise self.error(item.value, "architectures is empty, expected at least one")
        return found

    def inherited(
        self, node: yaml.Node, name: str, types: Mapping[str, _Type], stated: Mapping[str, dict[str, Any]]
    ) -> dict[str, Any]:
        entries = self.mapping(node, name, ("extends", *types))
        parent: dict[str, Any] = {}
        if (item := entries.pop("extends", None)) is not None:
            base = self.value(item.value)
            if base not in stated:
                raise self.error(item.value, f"{name} extends {base!r}, which is not listed above it")
            parent = stated[base]
        return {**parent, **{key: self.typed(entry.value, name, key, types[key]) for key, entry in entries.items()}}

    def capabilities(
        self, node: yaml.Node, name: str, values: Mapping[str, Any], facts: Mapping[str, _Type]
    ) -> Capabilities:
        for key in (*REQUIRED, *facts):
            if key not in values:
                raise self.error(node, f"{name} does not state {key}, which every architecture must")
        known = {key: value for key, value in values.items() if key in FIELDS}
        if not known.get("threads") and (known.get("max_threads", 1), known.get("warp_size", 1)) != (1, 1):
            raise self.error(node, f"{name} has no threads, so max_threads and warp_size must be 1")
        return Capabilities(**known, facts={key: value for key, value in values.items() if key in facts})

    def entries(self, node: yaml.Node, where: str, types: Mapping[str, _Type]) -> dict[str, Any]:
        items = self.mapping(node, where, tuple(types))
        return {key: self.typed(item.value, where, key, types[key]) for key, item in items.items()}

    def typed(self, node: yaml.Node, where: str, key: str, kind: _Type) -> Any:
        value = self.value(node)
        if not kind.valid(value):
            raise self.error(node, f"{key} of {where} is {value!r}, expected {kind.accepted}")
        return value

    def mapping(self, node: yaml.Node, where: str, allowed: tuple[str, ...] | None = None) -> dict[str, _Item]:
        if not isinstance(node, yaml.MappingNode):
            raise self.error(node, f"{where} is {self.value(node)!r}, expected a mapping")
        found: dict[str, _Item] = {}
        for key, value in node.value:
            name = self.value(key)
            if not isinstance(name, str):
                raise self.error(key, f"{where} has the key {name!r}, expected text")
            if name in found:
                raise self.error(key, f"{where} states {name} twice")
            if allowed is not None and name not in allowed:
                raise self.error(key, f"{where} has the unknown key {name!r}, expected {', '.join(allowed)}")
            found[name] = _Item(key, value)
        return found

    def required(self, items: Mapping[str, _Item], key: str, node: yaml.Node, where: str) -> _Item:
        if key not in items:
            raise self.error(node, f"{where} does not state {key}")
        return items[key]

    def value(self, node: yaml.Node) -> Any:
        loader = yaml.SafeLoader("")
        try:
            return loader.construct_document(node)
        except yaml.constructor.ConstructorError as error:
            raise self.error(node, f"not a plain value: {error.problem}") from error
        finally:
            loader.dispose()

    def error(self, node: yaml.Node, message: str) -> TargetTableError:
        place = f"{self.file}:{node.start_mark.line + 1}:{node.start_mark.column + 1}"
        return TargetTableError(f"{place}: {message}", remedy="correct the backend's table of targets")
