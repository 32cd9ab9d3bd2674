"""One program for every code of this backend: its class and what its message names.

torch's compiler for Metal is stood for by functions that refuse, so that the programs need no Mac.
"""

from __future__ import annotations

from typing import Any

import pytest

from tile_core.errors import backends as codes
from tile_core.testing.codes import Program, inside, refuse
from tile_metal import errors, runtime

COMPILE = 'made = tl.compile(kernel, target="metal")\n'
PROGRAMS = {
    "CodeGenerationUnimplementedError": Program(
        """
@T.prim_func
def kernel(A: T.Tensor((8,), "int32")):
    between = T.alloc_global((8,), "int32")  # HERE
    with T.Kernel(1, threads=32):
        T.copy(A, between)
tl.compile(kernel, target="metal")
""",
        "workspace between",
    ),
    "DialectNameUnimplementedError": Program(
        "import tile_metal.language\ntile_metal.language.simdgroup_load  # HERE", "simdgroup_load"
    ),
    "DeviceCompilerError": Program(inside("A[0] = 1", then=COMPILE + "load(refuses)(made.artifact)"), "error: no"),
    "LaunchError": Program(
        inside("A[0] = 2", then=COMPILE + "load(nothing)(made.artifact)(torch.zeros(8, dtype=torch.int32), None)"),
        "has no kernel_kernel",
    ),
    "MissingMetalError": Program(
        inside("A[0] = 3", then=COMPILE + "runtime.load(made.artifact, made.request)"), "cannot compile for Metal"
    ),
}


class Nothing:
    """A library without kernels."""

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"the library has no {name}")


def _refuse(_source: str) -> Any:
    raise SyntaxError("program_source:1: error: no")


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_for_each_code(name, monkeypatch):
    import torch

    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    scope = {
        "runtime": runtime,
        "refuses": _refuse,
        "nothing": lambda _source: Nothing(),
        "load": lambda compiler: lambda artifact: runtime._Kernels(artifact, compiler).run,
    }
    refuse(getattr(codes if hasattr(codes, name) else errors, name), PROGRAMS[name], scope)
