"""One program for every code of the interpreter: its class, the line it points at, and what its message names."""

from __future__ import annotations

import pytest

from tile_core.errors import interpreter as codes
from tile_core.testing.codes import Program, inside, refuse

FOREIGN = """
from tvm import ir
from tile_core.frontend.builder import current_builder

def foreign():
    current_builder().evaluate(ir.Call(ir.Op.get("tirx.cuda.thread_fence"), [], ret_ty="void"))
"""


def interpreted(body: str, before: str = "") -> str:
    """A kernel with a tile of 4 int32 that is run with A = 0, 1, …."""
    tile = 'tx = T.get_thread_binding(0)\ntile = T.alloc_shared((4,), "int32")\n'
    then = """
    run = tl.compile(kernel, target="interpret", pass_configs={"interpret.max_steps": 100})
    run(torch.arange(8, dtype=torch.int32), torch.zeros(8))
    """
    return before + inside(tile + body, then=then)


PROGRAMS = {
    "BarrierMisuseError": Program(interpreted("if tx < 3:\n    T.sync_threads()  # HERE"), "3 of 32"),
    "DataRaceError": Program(interpreted("for i in T.Parallel(7):\n    A[i + 1] = A[i] + 1  # HERE"), "A[1]"),
    "DeviceAssertError": Program(
        interpreted('for i in T.serial(4):\n    T.device_assert(i < 3, "small")  # HERE'), "small, at bx=0, i=3"
    ),
    "DeviceDivisionError": Program(interpreted("for i in T.serial(4):\n    A[i] = 6 // (2 - i)  # HERE"), "i=2"),
    "DivergentCollectiveError": Program(interpreted("if tx < 3:\n    T.clear(tile)  # HERE"), "3 of 32"),
    "EndlessLoopError": Program(interpreted("A[0] = 0\nwhile A[0] == 0:  # HERE\n    A[1] = 1"), "100 times"),
    "LoopIndexRangeError": Program(
        interpreted("for i in T.serial(2147483642 + A[5], A[0] - 2147483646):  # HERE\n    A[0] = i"),
        "i goes up to 2147483649",
    ),
    "InterpretOptionError": Program(
        inside(
            "A[0] = 1",
            then="""tl.compile(kernel, target="interpret", pass_configs={"interpret.max_steps": "many"})""",
        ),
        "interpret.max_steps",
    ),
    "InterpreterLimitError": Program(interpreted("for i in T.Parallel(1 << 30):  # HERE\n    A[0] = 1"), "1073741824"),
    "NoReferenceMeaningError": Program(interpreted("foreign()  # HERE", FOREIGN), "tirx.cuda.thread_fence"),
    "OutOfBoundsAccessError": Program(interpreted("for i in T.serial(5):\n    tile[i] = A[i]  # HERE"), "tile[4]"),
    "UninitializedReadError": Program(interpreted("A[0] = tile[2]  # HERE"), "tile[2]"),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_for_each_code(name):
    refuse(getattr(codes, name), PROGRAMS[name])
