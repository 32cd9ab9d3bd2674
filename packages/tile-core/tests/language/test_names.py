"""The table of names, dialects made from it, and what an unknown name says."""

from __future__ import annotations

import ast
import importlib
import inspect
import subprocess
import sys
import textwrap
import types

import pytest

import tile_core.language as T
from tile_core.dtypes import EXPORTED_NAMES
from tile_core.errors import DialectNameError
from tile_core.language import dialect
from tile_core.language._names import PORTABLE_NAMES


@pytest.mark.parametrize("module", [name for name in PORTABLE_NAMES if name.startswith("tile_core.language.")])
def test_the_table_holds_exactly_what_the_modules_export(module):
    exported = set(importlib.import_module(module).__all__)
    internal = {"kernel_type"}
    assert set(PORTABLE_NAMES[module]) == exported - internal


def test_no_name_has_two_homes():
    names = [name for home in PORTABLE_NAMES.values() for name in home]
    assert len(names) == len(set(names))


def test_every_name_resolves_and_is_listed():
    for name in T.__all__:
        assert not isinstance(getattr(T, name), types.ModuleType), name
        assert name in dir(T)
    assert set(EXPORTED_NAMES) <= set(T.__all__)


def test_examples_of_docstrings_are_programs_over_names_that_exist():
    shown = {name: (inspect.getdoc(getattr(T, name)) or "").partition("\nExample:\n")[2] for name in T.__all__}
    examples = {name: textwrap.dedent(text) for name, text in shown.items() if text}
    assert len(examples) > 30
    for name, example in examples.items():
        attributes = [node for node in ast.walk(ast.parse(example, name)) if isinstance(node, ast.Attribute)]
        used = {node.attr for node in attributes if isinstance(node.value, ast.Name) and node.value.id == "T"}
        assert used <= set(T.__all__), name


def test_functions_win_over_modules_of_the_same_name():
    for name in ("copy", "fill", "gemm", "reduce"):
        module = importlib.import_module(f"tile_core.language.{name}")
        assert callable(getattr(T, name))
        assert getattr(T, name) is getattr(module, name)


def test_importing_the_language_is_light():
    code = (
        "import sys, tile_core, tile_core.language as T; dir(T); "
        "print(sorted({'tvm', 'numpy', 'torch'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_names_resolve_without_looking_for_backends():
    # `from tile_core.language import module` would ask the package for a name first, which looks for other dialects.
    code = (
        "import sys, tile_core.language as T\n[getattr(T, name) for name in T.__all__]\n"
        "print('tile_core.plugins.manager' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_an_unknown_name_is_refused_at_the_users_line():
    with pytest.raises(DialectNameError) as caught:

        @T.prim_func
        def kernel(A: T.Tensor((8,), T.int32)):
            with T.Kernel(1, threads=32):
                T.alloc_sharde((8,), T.int32)  # misspelt

    assert "alloc_shared" in caught.value.remedy
    assert caught.value.span is not None
    assert caught.value.span.file == __file__
    assert isinstance(caught.value, AttributeError)
    assert not hasattr(T, "nothing_like_this")
    assert not hasattr(T, "__nothing__")


def test_a_dialect_adds_replaces_and_removes_names(monkeypatch):
    module = types.ModuleType("example_language")
    home = types.ModuleType("example_home")
    home.Kernel, home.special = "their kernel", "their own"
    for each in (module, home):
        monkeypatch.setitem(sys.modules, each.__name__, each)
    made = dialect("example", "example_language", {"example_home": ("Kernel", "special")}, without=("print",))
    assert made.lookup("Kernel") == "their kernel"
    assert made.lookup("special") == "their own"
    assert made.lookup("copy") is T.copy
    assert "print" not in made.exports
    assert module.special == "their own"
    with pytest.raises(DialectNameError, match="example"):
        made.lookup("print")


def test_a_name_of_another_installed_dialect_is_told(monkeypatch):
    from tile_core.language import _dialect

    other = types.ModuleType("other_language")
    monkeypatch.setitem(sys.modules, "other_language", other)
    other.DIALECT = dialect("other", "other_language", {"other_home": ("special",)}, unimplemented=("planned",))
    monkeypatch.setattr(_dialect, "_installed_dialects", lambda: ["broken_language", "other_language"])
    with pytest.raises(DialectNameError) as caught:
        T.special
    assert "import other_language as T" in caught.value.remedy
    with pytest.raises(DialectNameError) as caught:
        T.planned
    assert "other_language, where it is not implemented yet" in caught.value.remedy
