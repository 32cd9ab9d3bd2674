"""One program for every code of asking for a kernel, calling it and measuring it: its class and what it names.

These errors belong to a call, not to a line of a kernel, and are raised before anything runs.
"""

from __future__ import annotations

import pytest

from tile_core.errors import runtime as codes
from tile_core.testing.codes import Program, inside, refuse

COPY = """
n = T.dynamic("n")

@T.prim_func
def copy(A: T.Tensor((n,), "float32"), B: T.Tensor((n,), "float32"), k: T.int8):
    with T.Kernel(1):
        T.copy(A, B)

kernel = tl.compile(copy, target="cpu")
a, b = torch.zeros(5), torch.zeros(5)
"""


def called(call: str) -> str:
    """A program that calls a compiled copy of A to B."""
    return COPY + call


def factory(body: str, call: str = "make(5)") -> str:
    """A `jit` factory and a call of it."""
    return f"@tl.jit(target='interpret')\ndef make(n):\n    {body}\n{call}"


PROGRAMS = {
    "ArgumentCountError": Program(called("kernel(a, b)"), "copy takes 3 arguments, 2 were given"),
    "ArgumentDeviceError": Program(called('kernel(a, torch.zeros(5, device="meta"), 1)'), "argument 1 (`B`) of copy"),
    "ArgumentDtypeError": Program(called("kernel(a, b.double(), 1)"), "argument 1 (`B`) of copy"),
    "ArgumentError": Program(
        called(
            """
monkeypatch.setattr(type(kernel.caller), "_check", lambda self, arguments: arguments)
kernel(a, b.double(), 1)
"""
        ),
        "copy(A: float32[n], B: float32[n], k: int8) refused",
    ),
    "ArgumentLayoutError": Program(called("kernel(a, torch.zeros(10)[::2], 1)"), "argument 1 (`B`) of copy"),
    "ArgumentRankError": Program(called("kernel(a, b[None], 1)"), "argument 1 (`B`) of copy"),
    "ArgumentShapeError": Program(called("kernel(a, torch.zeros(6), 1)"), "argument 1 (`B`) of copy"),
    "ArgumentTypeError": Program(called("kernel(a, [1.0], 1)"), "argument 1 (`B`) of copy"),
    "ArgumentValueError": Program(called("kernel(a, b, 300)"), "argument 2 (`k`) of copy"),
    "CompileOptionError": Program(
        inside("A[0] = 1", then='tl.compile(kernel, target="interpret", execution="fast")'), "'fast'"
    ),
    "CompileTimeArgumentError": Program(factory("pass", "make(torch.zeros(5))"), "Tensor was given for a compile-time"),
    "ExportError": Program(called('kernel.show_source("device")'), "'device'"),
    "KeywordArgumentError": Program(called("kernel(a, b, k=1)"), "the keyword arguments k"),
    "MissingArgumentError": Program(called("kernel(a, None, 1)"), "argument 1 (`B`) of copy"),
    "NoDeviceError": Program(
        """
import sys
from tile_core.plugins import Detection
absent = Detection(available=False, reason="none here", priority=1)
monkeypatch.setattr(sys.modules["tile_core.jit.compile"], "detection", lambda backend: absent)
"""
        + inside("A[3] = 77", then='tl.compile(kernel, target="cpu")(None, None)'),
        "none here",
    ),
    "NotAKernelError": Program(factory("return n"), "make returned int"),
    "OutIdxError": Program(
        inside("A[0] = 1", then='tl.compile(kernel, target="interpret", out_idx=1)'), "`X` is an output of kernel"
    ),
    "OutputShapeError": Program(
        inside(
            "for i in T.serial(8):\n    B[i] = A[i]",
            parameters='A: T.Tensor((8,), "int32"), B: T.Tensor((T.dynamic("m"),), "int32")',
            then='tl.compile(kernel, target="interpret", out_idx=1)',
        ),
        "`B`",
    ),
    "PassConfigError": Program(
        inside("A[0] = 1", then='tl.compile(kernel, target="interpret", pass_configs={"interpret.chek_races": 1})'),
        "interpret.chek_races",
    ),
    "ProfilerError": Program(called("kernel.get_profiler().do_bench()"), "`A: float32[n]`"),
    "ReadOnlyArgumentError": Program(
        called("b = b.numpy()\nb.flags.writeable = False\nkernel(a.numpy(), b, 1)"), "argument 1 (`B`) of copy"
    ),
    "ResultMismatchError": Program(
        called("kernel.get_profiler().assert_allclose(lambda a, b, k: b.fill_(1), input_tensors=[a, b, 1])"), "output 0"
    ),
    "UnknownStageError": Program(called('kernel.ir("vectorise")'), "'vectorise'"),
    "UnsolvableExtentError": Program(
        """
from tvm import tirx
n = tirx.Var("n", "int32")
tl.compile(tirx.PrimFunc([tirx.decl_buffer((n * 2,), "int32", "A")], tirx.Evaluate(0)), target="interpret")
""",
        "the symbol 'n'",
    ),
    "UnsupportedParameterError": Program(
        """
from tvm import ir, tirx
odd = ir.Var("odd", ir.TupleType([]))
tl.compile(tirx.PrimFunc([odd], tirx.Evaluate(0)), target="interpret")
""",
        "'odd'",
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_for_each_code(name, monkeypatch):
    refuse(getattr(codes, name), PROGRAMS[name], {"monkeypatch": monkeypatch})
