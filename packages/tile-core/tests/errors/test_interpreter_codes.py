"""One program for every code of the interpreter: its class, the line it points at, and what its message names.

The line at fault ends in `# HERE`.
"""

from __future__ import annotations

import inspect
import linecache
import textwrap

import pytest
import torch

from tile_core.errors import TileError
from tile_core.errors import interpreter as codes
from tile_core.interpreter import Options, Program

KERNEL = """
import tile_core.language as T
from tvm import ir
from tile_core.frontend.builder import current_builder
from tile_core.language import threads

def foreign():
    current_builder().evaluate(ir.Call(ir.Op.get("tirx.cuda.thread_fence"), [], ret_ty="void"))

@T.prim_func
def kernel(A: T.Tensor((8,), "int32"), X: T.Tensor((8,), "float32")):
    with T.Kernel(1, threads=32) as bx:
        tx = T.get_thread_binding(0)
        tile = T.alloc_shared((4,), "int32")
{body}
"""
PROGRAMS = {
    "OutOfBoundsAccessError": ("for i in T.serial(5):\n    tile[i] = A[i]  # HERE", "tile[4]"),
    "UninitializedReadError": ("A[0] = tile[2]  # HERE", "tile[2]"),
    "DataRaceError": ("for i in T.Parallel(7):\n    A[i + 1] = A[i] + 1  # HERE", "A[1]"),
    "BarrierMisuseError": ("if tx < 3:\n    threads.sync_threads()  # HERE", "3 of 32"),
    "DeviceAssertError": ('for i in T.serial(4):\n    T.device_assert(i < 3, "small")  # HERE', "small"),
    "NoReferenceMeaningError": ("foreign()  # HERE", "tirx.cuda.thread_fence"),
    "DivergentCollectiveError": ("if tx < 3:\n    T.clear(tile)  # HERE", "3 of 32"),
    "DeviceDivisionError": ("for i in T.serial(4):\n    A[i] = 6 // (2 - i)  # HERE", "i=2"),
    "InterpreterLimitError": ("for i in T.Parallel(1 << 30):  # HERE\n    A[0] = 1", "1073741824"),
    "EndlessLoopError": ("A[0] = 0\nwhile A[0] == 0:  # HERE\n    A[1] = 1", "100 times"),
}
ELSEWHERE = {"InterpretOptionError"}
"""Raised by `compile`, see `tests/interpreter/test_backend.py`."""


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_for_each_code(name):
    body, word = PROGRAMS[name]
    text = KERNEL.format(body=textwrap.indent(body, " " * 8))
    file = f"<program for {name}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    space = {"__name__": "program"}
    exec(compile(text, file, "exec"), space)
    kind = getattr(codes, name)
    with pytest.raises(kind) as caught:
        Program(space["kernel"], Options(max_steps=100))(torch.arange(8, dtype=torch.int32), torch.zeros(8))
    error = caught.value
    assert type(error) is kind
    assert error.span is not None
    assert linecache.getline(error.span.file, error.span.line).rstrip().endswith("# HERE")
    assert word in error.message
    assert kind.code in str(error)


def test_every_code_has_a_program():
    assert set(codes.__all__) == PROGRAMS.keys() | ELSEWHERE


def test_codes_are_distinct_and_documented():
    classes = [getattr(codes, name) for name in codes.__all__]
    assert len({each.code for each in classes}) == len(classes)
    for each in classes:
        assert issubclass(each, TileError)
        assert each.__bases__[-1] is not TileError, f"{each} is no builtin exception"
        assert each.code.startswith("TILE-E08")
        assert len(inspect.getdoc(each) or "") > 60, each
