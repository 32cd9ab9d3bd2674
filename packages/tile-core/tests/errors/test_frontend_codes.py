"""One program for every code of the front end: its class, the line it points at, and what its message names."""

from __future__ import annotations

import pytest

from tile_core.errors import frontend as codes
from tile_core.testing.codes import Program, inside, refuse


def function(body: str) -> str:
    """A `prim_func` of one line that opens no kernel."""
    return f'@T.prim_func\ndef kernel(A: T.Tensor((8,), "int32")):\n    {body}'


def launched(options: str) -> str:
    """A kernel whose launch is at fault."""
    return function(f"with T.Kernel({options}):  # HERE\n        A[0] = 1")


# A macro that hands a value out of the branch in which it is called.
KEEP = """
class Box:
    value = None

@T.macro
def bind(A):
    v = A[0] + 1
    return v

def keep(A):
    Box.value = bind(A)
"""
# The compiler's own code fails with what no rule foresaw.
FAULT = "import json, sys\nmonkeypatch.setattr(sys.modules['tile_core.language.fill'], 'region', json.loads)\n"
NOWHERE = 'exec(compile("import tile_core.language as T\\n@T.prim_func\\ndef f(): pass", "<nowhere>", "exec"))'

PROGRAMS = {
    "AmbiguousDivisionError": Program(inside("A[0] = A[1] / 2  # HERE"), "`/` on two integers (int32)"),
    "AssignmentTargetError": Program(inside("A[0:4] = 1  # HERE"), "a slice of A"),
    "CallSignatureError": Program(inside("T.clear()  # HERE"), "clear()"),
    "ConstantRangeError": Program(inside("X[0] = X[0] + 1e300  # HERE"), "1e+300 does not fit float32"),
    "ConstantWhileError": Program(inside("while True:  # HERE\n    A[0] = 1"), "condition of `while` is True"),
    "ControlFlowError": Program(
        inside("for i in T.Parallel(8):\n    if A[i] > 0:\n        break  # HERE"), "`break` in T.Parallel"
    ),
    "DeviceValueAsBoolError": Program(inside("A[0] = max(A[0], 3)  # HERE"), "whether `A[0] < 3` is true"),
    "DeviceValueAsNumberError": Program(inside("A[0] = [1, 2][A[0]]  # HERE"), "`A[0]` is known only when"),
    "DialectNameError": Program(inside("T.cpoy(A, A)  # HERE"), "no name 'cpoy'"),
    "DivisionByZeroError": Program(inside("A[0] = A[1] // 0  # HERE"), "`//` by the constant 0"),
    "ExceptionInDeviceCodeError": Program(
        inside("try:\n    for i in T.serial(4):\n        A[i] = {}[i]  # HERE\nexcept KeyError:\n    pass"),
        "KeyError",
    ),
    "ExpressionDepthError": Program(inside("A[0] = sum([A[1]] * 200) if A[0] > 0 else 0  # HERE"), "nested operations"),
    "HostStatementError": Program(function("A[0] = 1  # HERE"), "works on A outside of `T.Kernel`"),
    "IndexCountError": Program(inside("A[0, 0] = 1  # HERE"), "A has 1 dimensions and is indexed with 2"),
    "IndexRangeError": Program(inside("A[8] = 1  # HERE"), "the index 8 of A"),
    "InternalCompilerError": Program(FAULT + inside("T.fill(A, 1)  # HERE"), "TypeError"),
    "KernelKeywordError": Program(launched("1, cluster_dims=2"), "takes no `cluster_dims`"),
    "KernelNestingError": Program(inside("with T.Kernel(2):  # HERE\n    A[0] = 1"), "T.Kernel inside of T.Kernel"),
    "LaunchQueryError": Program(inside("A[0] = T.get_block_extent(3)  # HERE"), "the axis 3 of a launch"),
    "LaunchShapeError": Program(launched("1, threads=0"), "threads=0"),
    "LoopArgumentError": Program(
        inside("for i in T.serial(0, 4, 0):  # HERE\n    A[i] = 1"), "T.serial has the step 0"
    ),
    "LoopCarriedNameError": Program(
        inside("v = 0\nfor i in T.serial(4):\n    v = v + A[i]  # HERE"), "v is read in a device loop (T.serial)"
    ),
    "LoopElseError": Program(
        inside("for i in T.serial(4):  # HERE\n    A[i] = 1\nelse:\n    A[0] = 2"), "`else` on T.serial"
    ),
    "LoopUseError": Program(inside("A[0] = sum([i for i in T.serial(4)])  # HERE"), "T.serial is a loop of the kernel"),
    "MacroArgumentError": Program(
        "@T.macro\ndef bump(x: T.Ref):\n    x += 1\n" + inside("bump(3)  # HERE"), "the parameter x (T.Ref) is 3"
    ),
    "MembershipError": Program(inside("if A[0] in (1, 2):  # HERE\n    A[0] = 1"), "`in` on the device value A[0]"),
    "NoBuilderError": Program('T.alloc_shared((8,), "int32")  # HERE', "only while a kernel is traced"),
    "OperandError": Program(inside("X[0] = X[0] & 1  # HERE"), "`&` on floats (float32)"),
    "OutputError": Program(function("B = T.empty((8,))  # HERE"), "B made by T.empty is not returned"),
    "ParameterError": Program("@T.prim_func\ndef kernel(A):  # HERE\n    pass", "the parameter A has no annotation"),
    "PythonStateError": Program(
        inside("seen = []\nfor i in T.serial(4):  # HERE\n    seen.append(i)"),
        "list seen is changed inside a device loop",
    ),
    "ReboundNameError": Program(
        inside("v = 1\nif A[0] > 1:\n    v = 2\nA[1] = v  # HERE"), "v was assigned in a device branch (line "
    ),
    "ReturnValueError": Program(function("return A  # HERE"), "returns Buffer(A(8))"),
    "ScopeError": Program(KEEP + inside("if A[0] > 0:\n    keep(A)\nA[1] = Box.value  # HERE"), "the value v"),
    "SourceUnavailableError": Program(NOWHERE, "the source of f in <nowhere>"),
    "StaleValueError": Program(
        inside("pair = (A[0], 1)\nA[0] = 2\nA[1] = pair[0]  # HERE"), "A[0] was read here before A was written"
    ),
    "StatementInExpressionError": Program(inside("T.clear(A) if A[0] > 0 else None  # HERE"), "statement inside an"),
    "SymbolError": Program('T.const("n")  # HERE', "T.const outside of an eager function"),
    "TensorShapeError": Program('T.Tensor((-1,), "int32")  # HERE', "the dimension -1"),
    "UndefinedNameError": Program(inside("A[0] = nowhere  # HERE"), "name 'nowhere'"),
    "UnpackError": Program(inside("a, b = (1, 2, 3)  # HERE"), "3 values for 2 names"),
    "UnsupportedSyntaxError": Program(inside("yield A[0]  # HERE"), "`yield`"),
    "ValueAttributeError": Program(inside("A[0] = A.sum()  # HERE"), "A(8) has no attribute 'sum'"),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_for_each_code(name, monkeypatch):
    refuse(getattr(codes, name), PROGRAMS[name], {"monkeypatch": monkeypatch})
