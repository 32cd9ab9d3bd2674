"""Programs in the style of TileLang's examples, unchanged. Each checks its own results against torch.

All of them trace with TileLang 0.1.15, so a failure is ours.
"""

from __future__ import annotations

import importlib.util
import runpy
import shutil
import sys
from pathlib import Path

import pytest

from tile_core.compat.tilelang.devices import device_mode
from tile_core.compat.tilelang.finder import installed
from tile_core.plugins import manager

PROGRAMS = Path(__file__).parent / "programs"
NAMES = sorted(path.stem for path in PROGRAMS.glob("*.py") if not path.stem.startswith("test_"))
EMULATED = (
    "convolution",
    "elementwise_add",
    "flash_attention",
    "histogram_and_search",
    "matmul_splitk",
    "packed_weights",
    "rms_norm",
    "topk_gating",
    "transpose_and_views",
)

pytestmark = pytest.mark.filterwarnings("ignore::tile_core.errors.compat.CompatWarning")


def run(name, monkeypatch):
    path = str(PROGRAMS / f"{name}.py")
    monkeypatch.setattr(sys, "argv", [path])
    # A program may turn the cache off; what it changes ends with the test.
    monkeypatch.setenv("TILE_CACHE", "1")
    with installed(), device_mode():
        runpy.run_path(path, run_name="__main__")


@pytest.mark.parametrize("name", NAMES)
def test_on_the_host(name, host, monkeypatch):
    run(name, monkeypatch)


@pytest.mark.parametrize("name", NAMES)
def test_interpreted(name, monkeypatch):
    monkeypatch.setenv("TILE_TARGET", "interpret")
    run(name, monkeypatch)


@pytest.mark.emulate
@pytest.mark.skipif(importlib.util.find_spec("tile_cuda") is None, reason="tile-cuda is not installed")
@pytest.mark.skipif(shutil.which("g++") is None, reason="there is no host compiler")
@pytest.mark.parametrize("name", EMULATED)
def test_emulated(name, monkeypatch):
    assert "cuda" in manager.backends()
    monkeypatch.setenv("TILE_EXECUTION", "emulate")
    run(name, monkeypatch)


def test_there_are_enough_of_them():
    assert len(NAMES) >= 35
