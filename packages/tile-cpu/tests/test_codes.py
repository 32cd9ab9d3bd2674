"""One program for every code that compiling for the CPU raises: its class, the line, and what its message names."""

from __future__ import annotations

import pytest

import tile_core as tl
from tile_core import errors as codes
from tile_core.testing.codes import Program, inside, refuse

CPU = 'tl.compile(kernel, target="cpu")'

PROGRAMS = {
    "CodegenError": Program(
        """
def refuse(*arguments, **options):
    raise RuntimeError("LLVM has no such thing")
monkeypatch.setattr("tile_cpu.compiler.build_module", refuse)
"""
        + inside("A[5] = 55", then=CPU),
        "LLVM has no such thing",
    ),
    "DataTypeUnsupportedError": Program(
        inside('T.clear(T.alloc_shared((8,), "tfloat32x2"))  # HERE', then=CPU), "the CPU has no tfloat32x2"
    ),
    "MissingMachineError": Program(
        """
monkeypatch.setattr("shutil.which", lambda name: None)
"""
        + inside(
            "A[5] = 55", then='tl.compile(kernel, target={"kind": "cpu", "arch": "armv8-a"}, execution="emulate")'
        ),
        "lacks qemu-aarch64 and aarch64-linux-gnu-gcc",
    ),
    "UnsupportedOnTargetError": Program(
        inside(
            'X[0] = T.cast(T.cast(X[0], "float8_e8m0fnu", sat=False), "float32")  # HERE',
            then=CPU,
        ),
        'T.cast to float8_e8m0fnu with round="rn", sat=False',
    ),
    "WorkspaceLimitError": Program(
        inside('large = T.alloc_fragment((1 << 30,), "int32")  # HERE\nT.clear(large)', then=CPU),
        "in bytes: large 4294967296",
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_for_each_code(name, monkeypatch):
    refuse(getattr(codes, name), PROGRAMS[name], {"monkeypatch": monkeypatch})


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ('X[0] = T.call_extern("float8_e4m3fn", "f", X[0])', "tirx.call_extern takes or returns a float8_e4m3fn"),
        ('X[0] = T.cast(T.cast(X[0], "float8_e8m0fnu", round="rs", rbits=1), "float32")', 'round="rs", sat=True'),
        ('T.clear(T.alloc_shared((8,), "int4x2"))', "the CPU has no int4x2"),
    ],
)
def test_every_refusal_shows_the_line_it_is_about(body, message):
    kind = codes.UnsupportedOnTargetError if "round" in message else codes.DataTypeUnsupportedError
    refuse(kind, Program(inside(f"{body}  # HERE", then=CPU), message))


def test_the_cpu_is_here():
    assert tl.select_target("cpu").backend == "cpu"
