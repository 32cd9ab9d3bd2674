"""Every error code has a program that raises it, is documented, and is listed where its family is."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from pathlib import Path

import pytest

from tile_core import errors
from tile_core.errors import TileError
from tile_core.testing.codes import listed

PACKAGES = Path(__file__).resolve().parents[3]
CODES = {
    name: value for name, value in vars(errors).items() if isinstance(value, type) and issubclass(value, TileError)
}


def defined() -> Iterator[tuple[str, str, Path]]:
    """Class, code and file of every error class in the sources of all packages."""
    for file in PACKAGES.glob("*/src/**/*.py"):
        for node in ast.parse(file.read_text("utf-8")).body:
            for line in node.body if isinstance(node, ast.ClassDef) else ():
                if isinstance(line, ast.Assign) and ast.unparse(line.targets[0]) == "code":
                    yield node.name, ast.literal_eval(line.value), file


def owner(file: Path) -> str:
    """The package of a file."""
    return file.relative_to(PACKAGES).parts[0]


def test_every_code_has_a_program():
    tables = listed(sorted(PACKAGES.glob("*/tests/**/test_*codes.py")))
    core = {name for name, _code, file in defined() if owner(file) == "tile-core" and name in CODES}
    assert core - tables.keys() == set()


@pytest.mark.parametrize("package", sorted(path.name for path in PACKAGES.glob("tile-*") if path.name != "tile-core"))
def test_every_code_of_a_backend_has_a_program(package):
    tables = listed((PACKAGES / package / "tests").rglob("test_*codes.py"))
    assert {name for name, _code, file in defined() if owner(file) == package} - tables.keys() == set()


def test_every_program_is_for_a_code():
    known = {name for name, _code, _file in defined()}
    assert listed(sorted(PACKAGES.glob("*/tests/**/test_*codes.py"))).keys() - known == set()


def test_codes_are_distinct():
    codes = [code for _name, code, _file in defined()]
    assert sorted(codes) == sorted(set(codes))


@pytest.mark.parametrize("name", sorted(CODES.keys() - {"TileError"}))
def test_a_code_is_documented_and_is_a_builtin_exception_too(name):
    kind = CODES[name]
    assert len(inspect.getdoc(kind) or "") > 60
    builtins = [
        base for base in kind.__mro__ if base.__module__ == "builtins" and base not in (Exception, BaseException)
    ]
    assert builtins[:-1] or name == "ArgumentError", f"{name} is no builtin exception"
    assert kind.kind in ("invalid", "unsupported", "unimplemented", "environment")
