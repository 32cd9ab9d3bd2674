"""The options of the conformance kit, and what a failing program prints."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys

import pytest

pytest_plugins = ["pytester"]
PLUGIN = ("-p", "tile_core.testing.pytest_plugin", "-p", "no:cacheprovider")
SUITE = ("--pyargs", "tile_core.testing.suite")
BACKEND = """
from tile_core.testing import BackendConformance

class TestMine(BackendConformance):
    target = "no such target"
"""
TELLING = """
from tile_core.testing import Run

def told(self, body):
    print(f"runs on {self.target}, {self.execution}, {self.device}")

Run.execute = told
"""
BROKEN = """
from tile_core.testing import Run

call = Run.__call__

def broken(self, func, *arguments, **options):
    call(self, func, *arguments, **options)
    arguments[-1].add_(1)

Run.__call__ = broken
"""


def test_the_shipped_suite_runs_on_the_named_target(pytester: pytest.Pytester) -> None:
    done = pytester.runpytest_subprocess(*PLUGIN, *SUITE, "--tile-target", "interpret", "-k", "basic.vector_add")
    done.assert_outcomes(passed=1)


def test_without_a_target_the_shipped_suite_is_skipped(pytester: pytest.Pytester) -> None:
    done = pytester.runpytest_subprocess(*PLUGIN, *SUITE, "-k", "basic.vector_add", "-rs")
    done.assert_outcomes(skipped=1)
    done.stdout.fnmatch_lines(["*no target: subclass the class, or give --tile-target*"])


def test_the_options_replace_what_a_class_says(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(TELLING)
    pytester.makepyfile(BACKEND)
    told = ("-s", "-k", "basic.vector_add")
    own = pytester.runpytest_subprocess(*PLUGIN, *told)
    own.stdout.fnmatch_lines(["*runs on no such target, native, cpu*"])
    options = ("--tile-target", "other", "--tile-execution", "emulate", "--tile-device", "meta")
    pytester.runpytest_subprocess(*PLUGIN, *told, *options).stdout.fnmatch_lines(["*runs on other, emulate, meta*"])
    wrong = pytester.runpytest_subprocess(*PLUGIN, "--tile-execution", "sideways")
    wrong.stderr.fnmatch_lines(["*invalid choice: 'sideways'*"])


def test_a_failing_program_shows_both_values_and_a_command_that_repeats_it(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(BROKEN)
    pytester.makepyfile(BACKEND.replace("no such target", "interpret"))
    done = pytester.runpytest_subprocess(*PLUGIN, "-k", "basic.vector_add")
    done.assert_outcomes(failed=1)
    shown = done.stdout.str()
    difference = re.search(r"first at \[\d+\]: expected (\S+), got (\S+)", shown)
    assert difference is not None, shown
    assert float(difference[2]) == pytest.approx(float(difference[1]) + 1, abs=1e-5)
    command = re.search(r"repeat it with: python (.*)", shown)
    assert command is not None, shown
    again = subprocess.run(
        [sys.executable, *shlex.split(command[1]), "-p", "no:cacheprovider"],
        capture_output=True,
        text=True,
        check=False,
        cwd=pytester.mkdir("elsewhere"),
    )
    assert "1 passed" in again.stdout, again.stdout
