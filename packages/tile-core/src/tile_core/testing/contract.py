"""What holds for every installed plugin, as a pytest class: a plugin's test file subclasses it and names the backend.

    from tile_core.testing import PluginContract

    class TestPlugin(PluginContract):
        backend = "toy"
        table = "tile_toy.target:table"

Everything else is read from the manifest.
"""

from __future__ import annotations

import importlib
import subprocess
import sys
from typing import Any, ClassVar

import pytest

import tile_core.language as portable
from tile_core.dtypes import as_dtype
from tile_core.errors import DialectNameError, DialectNameUnimplementedError, TargetSpecError
from tile_core.plugins import Backend, manager
from tile_core.plugins.manifest import REFERENCES
from tile_core.targets import select_target
from tile_core.targets.table import TargetTable

HEAVY = ("tvm", "tvm_ffi", "torch", "numpy")
LIGHT = f"""
import importlib, sys
from tile_core.plugins import manager
backend = manager.backend(sys.argv[1])
manager.resolve(backend.detect)()
importlib.import_module(backend.dialect)
print(sorted(set({HEAVY}) & set(sys.modules)))
"""


class PluginContract:
    """The manifest, the dialect and the targets of `backend`.

    `table` is the reference of a function without parameters that returns the backend's `TargetTable`, if it has one
    whose architectures are chosen by the option `arch`.
    """

    backend: ClassVar[str] = ""
    table: ClassVar[str | None] = None

    @pytest.fixture
    def manifest(self) -> Backend:
        """The backend's manifest, as discovery finds it."""
        if not self.backend:
            pytest.skip("the base class has no backend; subclass it")
        return manager.backend(self.backend)

    @pytest.fixture
    def dialect(self, manifest: Backend) -> Any:
        """The module that a kernel author imports as `T`."""
        return importlib.import_module(manifest.dialect)

    @pytest.fixture
    def architectures(self, manifest: Backend) -> TargetTable:
        """The backend's table."""
        if self.table is None:
            pytest.skip(f"the architectures of {manifest.name} are not chosen from a table")
        found: TargetTable = manager.resolve(self.table)()
        return found

    def test_discovery_finds_it_by_its_kinds(self, manifest: Backend) -> None:
        for kind in manifest.target_kinds:
            assert manager.registry().backend_of_kind(kind) == manifest

    def test_every_reference_resolves(self, manifest: Backend) -> None:
        named = {name: getattr(manifest, name) for name in REFERENCES}
        found = {name: manager.resolve(reference) for name, reference in named.items() if reference is not None}
        assert all(callable(found[name]) for name in ("detect", "parse_target", "capabilities", "compiler", "runtime"))
        assert all(callable(manager.resolve(reference)) for reference in manifest.op_lowerings.values())

    def test_detecting_and_importing_the_dialect_imports_nothing_heavy(self, manifest: Backend) -> None:
        command = [sys.executable, "-c", LIGHT, manifest.name]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        assert done.stdout.strip() == "[]"

    def test_a_kind_alone_is_a_target_that_its_text_names_again(self, manifest: Backend) -> None:
        for kind in manifest.target_kinds:
            chosen = select_target(kind)
            assert chosen.backend == manifest.name
            assert select_target(str(chosen)) == chosen
            assert manager.resolve(manifest.capabilities)(chosen).dtypes

    def test_an_unknown_option_is_refused(self, manifest: Backend) -> None:
        with pytest.raises(TargetSpecError, match="colour"):
            select_target({"kind": manifest.target_kinds[0], "colour": "red"})

    def test_an_unknown_architecture_is_refused_with_the_known_ones(
        self, manifest: Backend, architectures: TargetTable
    ) -> None:
        with pytest.raises(TargetSpecError, match="no_such_architecture") as error:
            select_target({"kind": manifest.target_kinds[0], "arch": "no_such_architecture"})
        assert architectures.default in error.value.remedy

    def test_the_facts_of_an_architecture_are_those_of_the_table(
        self, manifest: Backend, architectures: TargetTable
    ) -> None:
        for name, facts in architectures.architectures.items():
            chosen = select_target({"kind": manifest.target_kinds[0], "arch": name})
            assert manager.resolve(manifest.capabilities)(chosen) == facts

    def test_every_dtype_of_the_table_exists(self, architectures: TargetTable) -> None:
        for facts in architectures.architectures.values():
            names = [*facts.dtypes, *facts.facts.get("convert_dtypes", [])]
            for entry in facts.facts.get("matrix", []):
                for operand in ("a", "b", "c"):
                    named = entry.get(operand, [])
                    names += [named] if isinstance(named, str) else named
            assert [as_dtype(name).name for name in names] == names

    def test_the_dialect_has_the_portable_names(self, dialect: Any) -> None:
        assert portable.exports() <= set(dialect.__all__)
        assert dialect.alloc_fragment is portable.alloc_fragment

    def test_every_name_of_the_dialect_is_there(self, dialect: Any) -> None:
        assert [name for name in dialect.__all__ if not hasattr(dialect, name)] == []

    def test_a_name_that_does_not_exist_yet_is_refused_at_its_line(self, dialect: Any) -> None:
        for name in dialect.DIALECT.unimplemented:
            with pytest.raises(DialectNameUnimplementedError, match=rf"TILE-E0591.*{name}") as raised:
                getattr(dialect, name)
            assert raised.value.kind == "unimplemented"
            assert raised.value.span is not None
            assert raised.value.span.file == __file__
            assert name not in dialect.__all__

    def test_a_wrong_name_is_no_unimplemented_name(self, dialect: Any) -> None:
        name = "no_such_name"
        with pytest.raises(DialectNameError, match=rf"TILE-E0123.*{name}"):
            getattr(dialect, name)
