"""The scanner: what it finds, that it finds nothing in valid files, and its command."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from tile_core.check import scan, scan_text
from tile_core.check.__main__ import main
from tile_core.cli.check import command

KERNEL = """
import tile_core.language as T

def factory(n):
    @T.prim_func
    def kernel(A: T.Tensor((8,), "int32")):
        with T.Kernel(1):
{body}
    return kernel
"""
ROOT = Path(__file__).resolve().parents[4]


def found(*lines: str) -> list[tuple[str, int]]:
    """The codes in a kernel of these lines, each with its line's number among them."""
    text = KERNEL.format(body="\n".join(" " * 12 + line for line in lines))
    return [(error.code, error.span.line - 8) for error in scan_text(text, "kernel.py") if error.span]


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (["yield A"], [("TILE-E0103", 0)]),
        (["x = 1", "class B: pass", "def f(): pass"], [("TILE-E0103", 1), ("TILE-E0103", 2)]),
        (["for i in T.Parallel(8):", "    break"], [("TILE-E0115", 1)]),
        (["for i in T.serial(8):", "    return"], [("TILE-E0115", 1)]),
        (["for i in range(8):", "    raise ValueError"], [("TILE-E0115", 1)]),
        (["while True:", "    A[0] = 1"], [("TILE-E0117", 0)]),
        (["for i in T.serial(8):", "    pass", "else:", "    pass"], [("TILE-E0118", 0)]),
        (["x = 0", "for i in T.serial(8):", "    x = x + A[i]"], [("TILE-E0111", 2)]),
        (["x = 0", "for i in range(8):", "    x += A[i]"], [("TILE-E0111", 2)]),
        (["x = 0", "while x < 4:", "    x = A[0]"], [("TILE-E0111", 1)]),
        (["kept = []", "for i in T.serial(8):", "    kept.append(i)"], [("TILE-E0114", 2)]),
    ],
)
def test_what_is_found(lines, expected):
    assert found(*lines) == expected


@pytest.mark.parametrize(
    "lines",
    [
        ["x = T.alloc_var('int32', init=0)", "for i in T.serial(8):", "    x = x + A[i]", "    x += 1"],
        ["x = 0", "for i in T.serial(8):", "    x = A[i]", "    A[i] = x"],
        ["x = 0", "for k in [1, 2]:", "    x = x + k"],
        ["for k in [1, 2]:", "    if k: break", "else:", "    A[0] = 1"],
        ["for i in T.serial(8):", "    kept = []", "    kept.append(i)"],
        ["kept = []", "for k in (1, 2):", "    kept.append(k)"],
        ["for i in range(8):", "    if A[i]: break", "    continue"],
        ["while A[0] > 1:", "    A[0] = 0"],
    ],
)
def test_what_is_fine(lines):
    assert found(*lines) == []


def test_untraced_functions_are_not_looked_at():
    assert scan_text("def plain():\n    while True:\n        yield 1\n", "plain.py") == []
    factory = "@tl.jit\ndef factory(n):\n    def helper():\n        yield 1\n"
    factory += "    @T.prim_func\n    def k(A): pass\n    return k\n"
    assert scan_text(factory, "factory.py") == []


@pytest.mark.parametrize(
    ("imported", "decorator", "count"),
    [
        ("import tile_core.language as L", "L.macro", 1),
        ("from tile_core import language", "language.prim_func", 1),
        ("from tile_core.language import prim_func as traced", "traced", 1),
        ("import tile_core", "tile_core.language.macro", 1),
        ("import tile_core as tl", "tl.jit(target='cpu')", 1),
        ("import tile_cuda.language as T", "T.macro", 1),
        ("import tilelang.language as T", "T.macro", 1),
        ("from . import T", "T.macro", 1),
        ("import jax", "jax.jit", 0),
        ("from numba import jit", "jit", 0),
        ("import tile_core as tl", "tl.other", 0),
    ],
)
def test_decorators_by_any_import(imported, decorator, count):
    assert len(scan_text(f"{imported}\n@{decorator}\ndef f(A):\n    yield A\n", "f.py")) == count


def test_the_examples_are_clean():
    for path in [
        *(ROOT / "examples").rglob("*.py"),
        *(ROOT / "packages/tile-core/src/tile_core/testing").rglob("*.py"),
    ]:
        # These contain refused programs on purpose.
        assert {"programs", "python_boundary"} & {path.parent.name, path.stem} or not scan(path), path


def test_the_command(tmp_path, capsys):
    bad = tmp_path / "bad.py"
    bad.write_text(KERNEL.format(body=" " * 12 + "yield A"))
    good = tmp_path / "good.py"
    good.write_text(KERNEL.format(body=" " * 12 + "A[0] = 1"))
    assert main([str(good)]) == 0
    assert main([str(good), str(bad)]) == 1
    shown = capsys.readouterr().out
    assert "TILE-E0103" in shown
    assert f"{bad}:8:13" in shown
    assert "yield A" in shown
    assert main([str(tmp_path / "missing.py")]) == 2
    capsys.readouterr()
    assert main(["--json", str(good), str(bad)]) == 1
    (error,) = json.loads(capsys.readouterr().out)
    assert (error["file"], error["line"], error["column"], error["code"]) == (str(bad), 8, 13, "TILE-E0103")
    assert error["message"] and error["remedy"]
    (tmp_path / "no.py").write_text("def (")
    assert main([str(tmp_path / "no.py")]) == 2


def test_tile_check(tmp_path):
    bad = tmp_path / "bad.py"
    bad.write_text(KERNEL.format(body=" " * 12 + "yield A"))
    done = CliRunner().invoke(command, [str(bad), "--json"])
    assert done.exit_code == 1
    assert json.loads(done.stdout)[0]["code"] == "TILE-E0103"
    assert CliRunner().invoke(command, []).exit_code == 2


def test_scanning_is_light(tmp_path):
    file = tmp_path / "good.py"
    file.write_text(KERNEL.format(body=" " * 12 + "A[0] = 1"))
    code = f"import sys, tile_core.check as c; c.scan({str(file)!r}); print('tvm' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
