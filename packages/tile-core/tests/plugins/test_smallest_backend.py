"""The smallest backend of docs/plugins.md, as it stands there: it is installed and runs kernels."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[4] / "docs" / "plugins.md"
PROGRAM = """
import numpy as np
import pytest
import torch

import tile_core as tl
import tile_mini.language as T
from tile_core import errors
from tile_core.testing import PluginContract

n, pitch = T.dynamic("n, pitch")


@T.prim_func
def scaled(A: T.StridedTensor((n, 8), (pitch, 1), "float32"), B: T.Tensor((n, 8), "float32"), factor: T.float32):
    with T.Kernel(T.ceildiv(n, 4)) as b:
        tile = T.alloc_shared((4, 8), "float32")
        T.copy(A[b * 4, 0], tile)
        for i, j in T.Parallel(4, 8):
            B[b * 4 + i, j] = T.max(tile[i, j], 0.0) * factor


@pytest.mark.parametrize("rows", [0, 1, 7])
def test_a_kernel(rows):
    wide, out = torch.randn(rows, 11), torch.full((rows, 8), float("nan"))
    tl.compile(scaled, target="mini")(wide[:, 3:], out, 2.5)
    assert torch.equal(out, wide[:, 3:].clamp_min(0) * 2.5)


def test_a_wrong_argument():
    with pytest.raises(errors.ArgumentDtypeError, match="float64"):
        tl.compile(scaled, target="mini")(np.zeros((2, 8)), np.zeros((2, 8), "float32"), 1.0)


def test_a_product():
    @T.prim_func
    def product(A: T.Tensor((5, 7), "float32"), B: T.Tensor((7, 3), "float32"), C: T.Tensor((5, 3), "float32")):
        with T.Kernel(1):
            a, b = T.alloc_shared((5, 7), "float32"), T.alloc_shared((7, 3), "float32")
            c = T.alloc_fragment((5, 3), "float32")
            T.copy(A, a)
            T.copy(B, b)
            T.gemm(a, b, c, clear_accum=True)
            T.copy(c, C)

    a, b, c = torch.randn(5, 7), torch.randn(7, 3), torch.full((5, 3), float("nan"))
    tl.compile(product, target="mini")(a, b, c)
    torch.testing.assert_close(c, a @ b, rtol=1e-5, atol=1e-5)


class TestPlugin(PluginContract):
    backend = "mini"
"""


@pytest.mark.compile
@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler cc")
def test_the_files_of_the_page_are_a_backend(tmp_path: Path) -> None:
    page = PAGE.read_text(encoding="utf-8")
    files = dict(re.findall(r"```(?:py|yaml)\n# (tile_mini/\S+)\n(.*?)```", page, re.DOTALL))
    manifest = re.search(r"```python\n(from tile_core.plugins import Backend.*?)```", page, re.DOTALL)
    assert manifest is not None
    own = manifest[1].replace("tile_toy", "tile_mini").replace('"toy"', '"mini"')
    files["tile_mini/plugin.py"] = re.sub(r"        settings=.*\n", "", own)
    files["tile_mini/__init__.py"] = ""
    assert len(files) == 9
    info = "tile_mini-0.1.dist-info"
    files[f"{info}/METADATA"] = "Metadata-Version: 2.1\nName: tile-mini\nVersion: 0.1\n"
    files[f"{info}/entry_points.txt"] = "[tile.backends]\nmini = tile_mini.plugin\n"
    files["test_mini.py"] = PROGRAM
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_mini.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path), "TILE_CACHE_DIR": str(tmp_path / "cache")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
