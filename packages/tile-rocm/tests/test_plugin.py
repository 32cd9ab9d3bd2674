"""The manifest is valid, is discovered, and costs nothing to load."""

from __future__ import annotations

import subprocess
import sys

from tile_core.plugins import manager
from tile_rocm.plugin import tile_register_backend

REFERENCES = ("detect", "parse_target", "capabilities", "compiler", "runtime")


def test_discovery_finds_this_backend() -> None:
    assert manager.backend("rocm") == tile_register_backend()
    for kind in ("rocm", "hip"):
        assert manager.registry().backend_of_kind(kind).name == "rocm"


def test_every_reference_resolves_to_a_callable() -> None:
    backend = tile_register_backend()
    assert all(callable(manager.resolve(getattr(backend, name))) for name in REFERENCES)


def test_loading_the_manifest_and_detecting_imports_nothing_heavy() -> None:
    program = """
import sys
from tile_core.plugins import manager
manager.resolve(manager.backend("rocm").detect)()
print(sorted({"tvm", "tvm_ffi", "torch", "numpy"} & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
