"""Keys: equal where compiling gives the same bytes, also in another process and another place; different otherwise."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import tile_core.language as T
from tile_core.jit.artifact import CompileRequest
from tile_core.jit.fingerprint import compiler_stamp, kernel_key, source_digest
from tile_core.targets import Target

REQUEST = CompileRequest(Target("fake", "fake"))


def test_the_same_program_has_the_same_key(fake, programs):
    assert kernel_key(programs.add(5), REQUEST) == kernel_key(programs.add(5), REQUEST)


@pytest.mark.parametrize(
    "other",
    [
        {"n": 6},
        {"dtype": "float16"},
        {"name": "other"},
        {"constant": 2.0},
        {"constant": 1.0000001},
        {"constant": float("inf")},
    ],
)
def test_another_program_has_another_key(fake, programs, other):
    assert kernel_key(programs.add(**{"n": 5, **other}), REQUEST) != kernel_key(programs.add(5), REQUEST)


def test_text_in_a_program_counts(fake):
    def make(text):
        @T.prim_func
        def main(A: T.Tensor((4,), "float32")):
            with T.Kernel(1, prelude=text) as _:
                A[0] = 1.0

        return main

    assert kernel_key(make("// a"), REQUEST) != kernel_key(make("// b"), REQUEST)


def test_zero_and_negative_zero_differ(fake, programs):
    keys = {kernel_key(programs.add(5, constant=value), REQUEST) for value in (0.0, -0.0)}
    assert len(keys) == 2


SCRIPT = """
import tile_core as tl, tile_core.language as T
from tile_core.jit.artifact import CompileRequest
from tile_core.jit.fingerprint import kernel_key
from tile_core.jit import fingerprint
from tile_core.targets import Target

fingerprint.source_digest = lambda package: ""  # sources may be edited while this runs

def make(n):
    @T.prim_func
    def main(A: T.Tensor((n,), "float32"), B: T.Tensor((n,), "float32")):
        with T.Kernel(T.ceildiv(n, 64)) as bx:
            S = T.alloc_shared((64,), "float32")
            T.copy(A[bx * 64], S)
            T.copy(S, B[bx * 64])
    return main

for n in ORDER:
    key = kernel_key(make(n), CompileRequest(Target("fake", "fake"), {"b": 1, "a": 2}, ("-O2",)))
    if n == 100:
        print(key)
"""


def test_place_order_time_and_hash_seed_do_not_matter(tmp_path):
    """Two checkouts, two build orders, two hash seeds, other lines of the file: one key."""
    keys = set()
    for number, order in enumerate(([100, 3, 7], [7, 3, 100], [100])):
        path = tmp_path / f"checkout{number}" / "deep" / "kernel.py"
        path.parent.mkdir(parents=True)
        path.write_text("\n" * (number * 10) + textwrap.dedent(SCRIPT).replace("ORDER", json.dumps(order)))
        os.utime(path, (number, number))
        environment = {**os.environ, "PYTHONHASHSEED": str(number)}
        done = subprocess.run([sys.executable, path], env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        keys.add(done.stdout.strip())
    assert len(keys) == 1
    assert len(keys.pop()) == 64


def test_the_stamp_names_no_place(fake):
    text = json.dumps(compiler_stamp())
    assert str(Path(__file__).parents[4]) not in text
    assert "/" not in text.replace("//", "")


def test_a_changed_source_changes_the_digest(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    package = tmp_path / "tile_test_sources"
    package.mkdir()
    (package / "__init__.py").write_text("a = 1\n")
    (package / "table.yaml").write_text("a: 1\n")
    (package / "notes.txt").write_text("not a source\n")
    digests = [source_digest.__wrapped__("tile_test_sources")]
    (package / "notes.txt").write_text("changed\n")
    digests.append(source_digest.__wrapped__("tile_test_sources"))
    (package / "table.yaml").write_text("a: 2\n")
    digests.append(source_digest.__wrapped__("tile_test_sources"))
    os.utime(package / "__init__.py", (1, 1))
    digests.append(source_digest.__wrapped__("tile_test_sources"))
    assert digests[0] == digests[1] != digests[2] == digests[3]


def test_a_setting_that_changes_code_is_in_the_key(fake, programs, monkeypatch):
    from tile_core.settings import CoreSettings, settings

    before = kernel_key(programs.add(5), REQUEST)
    monkeypatch.setattr(type(settings).num_threads, "changes_code", True)
    monkeypatch.setenv("TILE_NUM_THREADS", "3")
    assert CoreSettings.num_threads.changes_code
    assert kernel_key(programs.add(5), REQUEST) != before
