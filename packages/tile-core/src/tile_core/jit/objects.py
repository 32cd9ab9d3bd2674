"""Object files: written from LLVM, and loaded into this process without any tool of the machine."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

_NO_COMPILER = "tile-objects-hold-no-cxx"
"""The loader asks a C++ compiler for its runtime library, `$CXX` by default. What is loaded here needs none, no machine
needs a compiler, and the answer takes longer than all else."""


def object_bytes(module: Any) -> bytes:
    """The object file of an LLVM module of TVM."""
    with tempfile.TemporaryDirectory(prefix="tile-") as folder:
        path = Path(folder) / "module.o"
        module.write_to_file(str(path), "o")
        return path.read_bytes()


def compiled_text(text: str, **target: str) -> bytes:
    """The object file of LLVM's text, for this machine or the fields of TVM's LLVM `target`, such as `mcpu`."""
    import tvm

    described = json.dumps({"kind": "llvm", **target}).replace('"', "\\22")
    text += f'\n!tvm_target = !{{!0}}\n!0 = !{{!"{described}"}}\n'
    with tempfile.TemporaryDirectory(prefix="tile-") as folder:
        path = Path(folder) / "module.ll"
        path.write_text(text, "utf-8")
        return object_bytes(tvm.runtime.load_module(str(path)))


def load_object(image: bytes, *, stays: bool = False) -> Any:
    """The module of an object file; one that `stays` keeps its code until the process ends."""
    import tvm_ffi_orcjit

    return tvm_ffi_orcjit.default_session().load_module(image, cxx=_NO_COMPILER, keep_module_alive=stays)
