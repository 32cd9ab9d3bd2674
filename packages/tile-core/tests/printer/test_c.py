"""What plain C adds to the base: functions of `math.h`, and the scalar operations of the language."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tvm import ir, tirx
from tvm.tirx import stmt as S

from tile_core.ir.ops import tile_op
from tile_core.ops.scalar import SCALARS
from tile_core.printer import print_function
from tile_core.printer.c import C
from tile_core.printer.language import Forms, Snippet
from tile_core.printer.precedence import Code, call
from tile_core.printer.printer import Printer
from tile_core.printer.simt import NATIVE

VALUES = (0.0, -0.0, 1.0, -1.0, 2.5, -2.5, 0.5, -0.5, 1e30, -1e30, np.inf, -np.inf, np.nan, 3.0, 0.3, -7.25)
INDEX = tirx.Var("i", "int32")


def run(run_c: Any, build: Any, dtype: str, *inputs: np.ndarray) -> np.ndarray:
    """`build(loads…)` elementwise over the inputs."""
    buffers = [tirx.decl_buffer((len(values),), dtype, f"x{n}") for n, values in enumerate(inputs)]
    out = tirx.decl_buffer((len(inputs[0]),), dtype, "out")
    value = build(*(tirx.BufferLoad(buffer, [INDEX]) for buffer in buffers))
    extent = tirx.IntImm("int32", len(inputs[0]))
    loop = S.For(INDEX, tirx.IntImm("int32", 0), extent, S.ForKind.SERIAL, S.BufferStore(out, value, [INDEX]))
    result = np.full(len(inputs[0]), 77, dtype)
    run_c(print_function(tirx.PrimFunc([*buffers, out], loop), C), *inputs, result)
    return result


def test_what_has_a_form_of_its_own_on_the_host() -> None:
    """A snippet is replaced by its meaning, a handler with two forms by the second."""

    def on_device(printer: Printer, node: Any) -> Code:
        printer.snippet("both")
        printer.define("only_device", "int only_device(int x) { return DEVICE(x); }")
        return call("only_device", *map(printer.expr, node.args))

    language = C.extend(
        "C",
        snippets={"both": Snippet("// for the device", emulated="// for the host")},
        calls={"test.twice": Forms(on_device, lambda printer, node: call("host", *map(printer.expr, node.args)))},
    )
    out = tirx.decl_buffer((1,), "int32", "out")
    twice = ir.Call(tile_op("test.twice"), [tirx.IntImm("int32", 3)], ret_ty=ir.PrimType("int32"))
    func = tirx.PrimFunc([out], S.BufferStore(out, twice, [tirx.IntImm("int32", 0)]))
    device, host = (print_function(func, chosen).source for chosen in (language, language.on_the_host()))
    assert "// for the device" in device and "DEVICE(x)" in device and "out[0] = only_device(3);" in device
    assert "device" not in host.lower() and "out[0] = host(3);" in host


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", sorted(name for name in SCALARS if name in C.calls))
def test_scalar_operations_are_their_reference_meaning(run_c: Any, same_bits: Any, name: str, dtype: str) -> None:
    op = SCALARS[name]
    grid = np.array(np.meshgrid(*[np.array(VALUES, dtype)] * op.arity)).reshape(op.arity, -1)
    inputs = [np.ascontiguousarray(row) for row in grid]
    with np.errstate(all="ignore"):
        expected = op.reference(*inputs).astype(dtype)
    result = run(run_c, op.call, dtype, *inputs)
    if name.startswith(("tile.max", "tile.min")):
        # Which zero of 0.0 and -0.0 is the larger is left open.
        np.testing.assert_array_equal(result, expected)
    elif name == "tile.fma":
        # The reference rounds twice: once in a wider type.
        np.testing.assert_allclose(result, expected, rtol=np.finfo(dtype).eps)
    else:
        same_bits(result, expected)


def test_scalar_operations_of_the_standard_library_are_printed_natively() -> None:
    assert set(C.calls) >= NATIVE


FUNCTIONS = {
    "exp": np.exp, "exp2": np.exp2, "log": np.log, "log2": np.log2, "log10": np.log10, "log1p": np.log1p,
    "sqrt": np.sqrt, "tanh": np.tanh, "sin": np.sin, "cos": np.cos, "tan": np.tan, "sinh": np.sinh, "cosh": np.cosh,
    "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "asinh": np.arcsinh, "acosh": np.arccosh,
    "atanh": np.arctanh, "floor": np.floor, "ceil": np.ceil, "trunc": np.trunc, "abs": np.abs, "round": np.rint,
    "nearbyint": np.rint, "rsqrt": lambda x: 1 / np.sqrt(x), "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
}  # fmt: skip


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_functions_of_one_argument(run_c: Any, dtype: str) -> None:
    values = np.array([*VALUES, *np.linspace(-4, 4, 33), 1e-3, 80.0], dtype)
    for name, meaning in FUNCTIONS.items():
        with np.errstate(all="ignore"):
            expected = meaning(values.astype(np.float64)).astype(dtype)
        result = run(run_c, getattr(tirx, name), dtype, values)
        np.testing.assert_allclose(
            result, expected, rtol=1e-5 if dtype == "float32" else 1e-13, atol=1e-30, err_msg=name
        )


@pytest.mark.parametrize(("name", "meaning"), [("pow", np.power), ("fmod", np.fmod), ("atan2", np.arctan2)])
def test_functions_of_two_arguments(run_c: Any, name: str, meaning: Any) -> None:
    a, b = (grid.ravel().copy() for grid in np.meshgrid(np.array(VALUES), np.array(VALUES)))
    with np.errstate(all="ignore"):
        expected = meaning(a, b)
    np.testing.assert_allclose(run(run_c, getattr(tirx, name), "float64", a, b), expected, rtol=1e-13)
