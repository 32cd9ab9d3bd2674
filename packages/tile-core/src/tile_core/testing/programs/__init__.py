"""All conformance programs, group by group."""

from tile_core.testing.program import Program
from tile_core.testing.programs import (
    atomics,
    basic,
    frontend,
    gemm,
    host,
    kernels,
    layout,
    loops,
    memory,
    narrow,
    narrow_gemm,
    numerics,
    reduce,
)

TABLES = (
    basic.TABLE,
    frontend.TABLE,
    layout.TABLE,
    memory.TABLE,
    loops.TABLE,
    reduce.TABLE,
    atomics.TABLE,
    gemm.TABLE,
    numerics.TABLE,
    narrow.TABLE,
    narrow_gemm.TABLE,
    host.TABLE,
    kernels.TABLE,
)
PROGRAMS: tuple[Program, ...] = tuple(program for table in TABLES for program in table.programs)
