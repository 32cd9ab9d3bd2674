"""One program for every code of the front end: its class, the line it points at, and what its message names.

The line at fault ends in `# HERE`.
"""

from __future__ import annotations

import inspect
import linecache
import textwrap
from typing import Any

import pytest

from tile_core.errors import TileError, frontend

HEAD = """
import tile_core.language as T
Ints = T.Tensor((8,), "int32")
Floats = T.Tensor((8,), "float32")
"""

KERNEL = """
@T.prim_func
def kernel(A: Ints, X: Floats):
    with T.Kernel(1, threads=32) as bx:
{body}
"""


def inside(body: str) -> str:
    """A program with `body` in its kernel."""
    return KERNEL.format(body=textwrap.indent(textwrap.dedent(body).strip("\n"), " " * 8))


PROGRAMS: dict[str, tuple[str, str]] = {
    "NoBuilderError": ('T.alloc_shared((8,), "int32")  # HERE', "T.prim_func"),
    "UnsupportedSyntaxError": (inside("yield A[0]  # HERE"), "yield"),
    "DeviceValueAsBoolError": (inside("A[0] = max(A[0], 3)  # HERE"), "A[0]"),
    "DeviceValueAsNumberError": (inside("A[0] = [1, 2][A[0]]  # HERE"), "A[0]"),
    "AmbiguousDivisionError": (inside("A[0] = A[1] / 2  # HERE"), "int32"),
    "OperandError": (inside("X[0] = X[0] & 1  # HERE"), "float32"),
    "IndexCountError": (inside("A[0, 0] = 1  # HERE"), "A"),
    "IndexRangeError": (inside("A[8] = 1  # HERE"), "A"),
    "ReboundNameError": (inside("v = 1\nif A[0] > 1:\n    v = 2\nA[1] = v  # HERE"), "v"),
    "LoopCarriedNameError": (inside("v = 0\nfor i in T.serial(4):\n    v = v + A[i]  # HERE"), "v"),
    "ScopeError": (inside("if A[0] > 0:\n    keep(A)\nA[1] = Box.value  # HERE"), "v"),
    "StaleValueError": (inside("pair = (A[0], 1)\nA[0] = 2\nA[1] = pair[0]  # HERE"), "A"),
    "PythonStateError": (inside("seen = []\nfor i in T.serial(4):  # HERE\n    seen.append(i)"), "seen"),
    "ControlFlowError": (inside("for i in T.Parallel(8):\n    if A[i] > 0:\n        break  # HERE"), "T.Parallel"),
    "ReturnValueError": ("@T.prim_func\ndef kernel(A: Ints):\n    return A  # HERE", "T.empty"),
    "ConstantWhileError": (inside("while True:  # HERE\n    A[0] = 1"), "while"),
    "LoopElseError": (inside("for i in T.serial(4):  # HERE\n    A[i] = 1\nelse:\n    A[0] = 2"), "T.serial"),
    "MembershipError": (inside("if A[0] in (1, 2):  # HERE\n    A[0] = 1"), "A[0]"),
    "KernelNestingError": (inside("with T.Kernel(2):  # HERE\n    A[0] = 1"), "T.Kernel"),
    "LaunchShapeError": (
        "@T.prim_func\ndef kernel(A: Ints):\n    with T.Kernel(1, threads=0):  # HERE\n        A[0] = 1",
        "threads",
    ),
    "LaunchQueryError": (inside("A[0] = T.get_block_extent(3)  # HERE"), "3"),
    "DialectNameError": (inside("T.cpoy(A, A)  # HERE"), "cpoy"),
    "KernelKeywordError": (
        "@T.prim_func\ndef kernel(A: Ints):\n    with T.Kernel(1, cluster_dims=2):  # HERE\n        A[0] = 1",
        "cluster_dims",
    ),
    "ParameterError": ("@T.prim_func\ndef kernel(A):  # HERE\n    pass", "A"),
    "TensorShapeError": ('T.Tensor((-1,), "int32")  # HERE', "-1"),
    "ConstantRangeError": (inside("X[0] = X[0] + 1e300  # HERE"), "1e+300"),
    "DivisionByZeroError": (inside("A[0] = A[1] // 0  # HERE"), "//"),
    "LoopArgumentError": (inside("for i in T.serial(0, 4, 0):  # HERE\n    A[i] = 1"), "T.serial"),
    "LoopUseError": (inside("A[0] = sum([i for i in T.serial(4)])  # HERE"), "T.serial"),
    "MacroArgumentError": ("@T.macro\ndef bump(x: T.Ref):\n    x += 1\n" + inside("bump(3)  # HERE"), "x"),
    "OutputError": ("@T.prim_func\ndef kernel(A: Ints):\n    B = T.empty((8,))  # HERE", "B"),
    "SymbolError": ('T.const("n")  # HERE', "T.const"),
    "UndefinedNameError": (inside("A[0] = nowhere  # HERE"), "nowhere"),
    "CallSignatureError": (inside("T.clear()  # HERE"), "clear"),
    "StatementInExpressionError": (inside("T.clear(A) if A[0] > 0 else None  # HERE"), "if"),
    "HostStatementError": ("@T.prim_func\ndef kernel(A: Ints):\n    A[0] = 1  # HERE", "T.Kernel"),
    "ExceptionInDeviceCodeError": (
        inside("try:\n    for i in T.serial(4):\n        A[i] = {}[i]  # HERE\nexcept KeyError:\n    pass"),
        "KeyError",
    ),
    "ExpressionDepthError": (inside("A[0] = sum([A[1]] * 200) if A[0] > 0 else 0  # HERE"), "nested operations"),
    "UnpackError": (inside("a, b = (1, 2, 3)  # HERE"), "3"),
    "AssignmentTargetError": (inside("A[0:4] = 1  # HERE"), "A"),
    "ValueAttributeError": (inside("A[0] = A.sum()  # HERE"), "sum"),
}
# Source that cannot be found has no line; a fault of the compiler has no program.
WITHOUT_PROGRAM = {"SourceUnavailableError", "InternalCompilerError"}

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


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_a_program_for_each_code(name: str) -> None:
    program, word = PROGRAMS[name]
    text = HEAD + KEEP + program
    file = f"<program for {name}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    kind = getattr(frontend, name)
    with pytest.raises(kind) as caught:
        exec(compile(text, file, "exec"), {"__name__": "program"})
    error = caught.value
    assert type(error) is kind
    assert error.span is not None
    assert linecache.getline(error.span.file, error.span.line).rstrip().endswith("# HERE")
    assert word in error.message or word in error.remedy
    assert error.remedy
    assert kind.code in str(error)
    assert "# HERE" in str(error)


def test_every_code_has_a_program() -> None:
    assert set(frontend.__all__) == PROGRAMS.keys() | WITHOUT_PROGRAM


def test_codes_are_distinct_and_documented() -> None:
    classes: list[Any] = [getattr(frontend, name) for name in frontend.__all__]
    assert len({each.code for each in classes}) == len(classes)
    for each in classes:
        assert issubclass(each, TileError)
        assert each.__bases__[-1] is not TileError, f"{each} is no builtin exception"
        assert "01" in each.code
        assert len(inspect.getdoc(each) or "") > 60, each
