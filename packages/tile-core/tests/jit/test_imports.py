"""What importing the front door loads: nothing heavy."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = (
    "tvm",
    "tvm_ffi",
    "numpy",
    "torch",
    "yaml",
    "pluggy",
    "ml_dtypes",
    "tile_core.jit.kernel",
    "tile_core.frontend",
)


@pytest.mark.parametrize(
    "statement",
    [
        "import tile_core",
        "import tile_core as tl; tl.jit; tl.__version__; dir(tl)",
        "import tile_core as tl\n@tl.jit\ndef f(n): pass\n@tl.jit(out_idx=-1)\ndef g(n): pass",
        "import tile_core.jit",
    ],
)
def test_an_import_loads_nothing_heavy(statement):
    code = f"{statement}\nimport sys\nprint([name for name in {HEAVY!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_jit_stays_the_function_after_its_package_was_imported():
    code = (
        "import tile_core.jit.compile, tile_core.jit.cache\n"
        "import tile_core as tl\n"
        "print(tl.jit.__qualname__, tl.compile.__qualname__)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["jit", "compile"]


def test_every_exported_name_is_there():
    import tile_core as tl

    assert set(tl.__all__) <= set(dir(tl))
    for name in tl.__all__:
        assert getattr(tl, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = tl.nothing
