"""One program for every code of the autotuner: its class and what its message names."""

from __future__ import annotations

import pytest

from tile_core.errors import autotune as codes
from tile_core.testing.codes import Program, refuse

FACTORY = """
@tl.jit(target="interpret", out_idx=-1)
def scaled(n, block=8):
    @T.prim_func
    def kernel(A: T.Tensor((n,), "float32"), B: T.Tensor((n,), "float32")):
        with T.Kernel(T.ceildiv(n, block)) as bx:
            for i in T.Parallel(block):
                B[bx * block + i] = A[bx * block + i] * 2
    return kernel
"""

PROGRAMS = {
    "AutotuneConfigError": Program(FACTORY + 'tl.autotune(configs=[{"blok": 1}])(scaled)', "no parameter 'blok'"),
    "AutotuneFailedError": Program(
        FACTORY + 'tl.autotune(configs=[{"block": 0}], warmup=0, rep=0)(scaled)(16)', "{'block': 0}"
    ),
    "AutotuneOptionError": Program(FACTORY + 'tl.autotune(configs=[{"block": 8}], timeout=-1)(scaled)', "timeout=-1"),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_for_each_code(name, monkeypatch, tmp_path):
    monkeypatch.setenv("TILE_CACHE_DIR", str(tmp_path))
    refuse(getattr(codes, name), PROGRAMS[name])
