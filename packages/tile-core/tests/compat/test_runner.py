"""The runner from outside: `python -m tile_core.compat.tilelang`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tile_core.compat.tilelang.runner import parse, set_environment

PROGRAMS = Path(__file__).parent / "programs"
RUNNER = [sys.executable, "-W", "ignore", "-m", "tile_core.compat.tilelang"]
KERNEL = """
import sys
import torch, tilelang, tilelang.language as T

@tilelang.jit(out_idx=-1{options})
def double(n):
    @T.prim_func
    def main(A: T.Tensor((n,), "float32"), B: T.Tensor((n,), "float32")):
        with T.Kernel(T.ceildiv(n, 64), threads=64) as bx:
            for i in T.Parallel(64):
                B[bx * 64 + i] = A[bx * 64 + i] * 2
    return main

kernel = double(100)
a = torch.rand(100{device})
assert torch.equal(kernel(a), a * 2)
print("right", *sys.argv[1:])
"""


def runs(*arguments, **variables):
    env = {**os.environ, **variables}
    done = subprocess.run([*RUNNER, *arguments], capture_output=True, text=True, env=env, timeout=600, check=False)
    return done.returncode, done.stdout, done.stderr


@pytest.fixture
def script(tmp_path):
    def write(device="", options=""):
        path = tmp_path / "script.py"
        path.write_text(KERNEL.format(device=device, options=options))
        return str(path)

    return write


def without_device():
    import torch

    return pytest.mark.skipif(torch.cuda.is_available(), reason="the device is here")


def test_a_script_with_arguments(host, script):
    path = script(device=', device="cuda"', options=', target="cuda"')
    status, shown, told = runs("--target", "cpu", path, "--target", "3", "-m")
    assert (status, shown) == (0, "right --target 3 -m\n"), told


@without_device()
def test_a_script_whose_tensors_are_on_an_absent_device(script):
    status, shown, told = runs(script(device=', device="cuda"'), TILE_TARGET="")
    assert (status, shown) == (1, "")
    assert "TILE-E0902" in told
    assert "--target cpu" in told
    assert "TILE_EXECUTION=emulate" in told


@without_device()
def test_a_script_whose_kernels_are_for_an_absent_device(script):
    pytest.importorskip("tile_cuda")
    status, shown, told = runs(script(options=', target="cuda"'), TILE_TARGET="")
    assert (status, shown) == (1, "")
    assert "TILE-E0723" in told
    assert "--target cpu" in told


def test_code_from_the_command_line(host):
    status, shown, told = runs("--target", "cpu", "-c", KERNEL.format(device="", options=""), "x")
    assert (status, shown) == (0, "right x\n"), told


def test_pytest_as_a_module(host):
    file = str(PROGRAMS / "test_idioms.py")
    status, shown, told = runs("--target", "cpu", "-m", "pytest", "-q", "-p", "no:cacheprovider", file, "--rootdir=/")
    assert status == 0, shown + told
    assert "4 passed, 3 skipped" in shown


def test_a_test_script_that_runs_itself(host):
    status, shown, told = runs("--target", "cpu", str(PROGRAMS / "test_idioms.py"), "-q", "-p", "no:cacheprovider")
    assert status == 0, shown + told
    assert "4 passed, 3 skipped" in shown


@without_device()
def test_tests_for_an_absent_device_are_skipped():
    status, shown, told = runs(
        "-m",
        "pytest",
        "-q",
        "-rs",
        "-p",
        "no:cacheprovider",
        str(PROGRAMS / "test_idioms.py"),
        "--rootdir=/",
        TILE_TARGET="",
    )
    assert status == 0, shown + told
    assert "1 passed, 6 skipped" in shown
    assert "--target" in shown


def test_the_exit_status_is_the_programs(host):
    assert runs("-c", "raise SystemExit(3)")[0] == 3
    assert runs("-c", "raise ValueError('no')")[0] == 1


def test_the_process_without_the_runner_is_untouched():
    code = "import sys; from tile_core.compat.tilelang import finder; print(finder._finder in sys.meta_path)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_options_end_where_the_program_begins():
    options = parse(["--target", "cpu", "--execution", "emulate", "-m", "pytest", "-m", "slow", "--target=x"])
    assert (options.target, options.execution, options.module) == ("cpu", "emulate", True)
    assert (options.program, options.arguments) == ("pytest", ["-m", "slow", "--target=x"])


def test_variables_are_translated(monkeypatch):
    for name in ("TILE_CACHE", "TILE_CACHE_DIR", "TILE_AUTOTUNE_CACHE", "TILE_AUTOTUNE_WORKERS", "TILE_DEBUG"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    monkeypatch.setenv("TILELANG_DISABLE_CACHE", "1")
    monkeypatch.setenv("TILELANG_CACHE_DIR", "/somewhere")
    monkeypatch.setenv("TILELANG_AUTO_TUNING_DISABLE_CACHE", "0")
    monkeypatch.setenv("TILELANG_AUTO_TUNING_CPU_COUNTS", "-1")
    monkeypatch.setenv("TILELANG_VERBOSE", "1")
    monkeypatch.setenv("TILE_TARGET", "before")
    set_environment(target="cpu")
    found = {
        name: os.environ.get(name) for name in ("TILE_CACHE", "TILE_CACHE_DIR", "TILE_AUTOTUNE_CACHE", "TILE_DEBUG")
    }
    assert found == {
        "TILE_CACHE": "0",
        "TILE_CACHE_DIR": "/somewhere",
        "TILE_AUTOTUNE_CACHE": "1",
        "TILE_DEBUG": "1",
    }
    assert "TILE_AUTOTUNE_WORKERS" not in os.environ
    assert os.environ["TILE_TARGET"] == "cpu"


def test_our_variables_win(monkeypatch):
    monkeypatch.setenv("TILELANG_CACHE_DIR", "/theirs")
    monkeypatch.setenv("TILE_CACHE_DIR", "/ours")
    set_environment()
    assert os.environ["TILE_CACHE_DIR"] == "/ours"


def test_a_variable_without_a_meaning_is_told(monkeypatch):
    from tile_core.compat.tilelang import table
    from tile_core.errors import CompatWarning

    monkeypatch.setattr(table, "_said", set())
    monkeypatch.setenv("TL_TEMPLATE_PATH", "/somewhere")
    with pytest.warns(CompatWarning, match="TL_TEMPLATE_PATH means nothing here: no templates"):
        set_environment()
