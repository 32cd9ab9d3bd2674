"""Compiles printed C with the machine's C compiler and runs it on numpy arrays."""

from __future__ import annotations

import ctypes
import itertools
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tile_core.printer import PrintedFunction

FLAGS = (
    "-std=c11",
    "-O2",
    "-ffp-contract=off",
    "-frounding-math",
    "-fPIC",
    "-shared",
    "-Werror=parentheses",
)
CTYPES = {"int32": ctypes.c_int32, "int64": ctypes.c_int64, "float32": ctypes.c_float, "float64": ctypes.c_double}

Run = Callable[..., None]


@pytest.fixture(scope="session")
def run_c(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """`run(printed, *arguments)`: arrays for buffers, numbers for scalars; sizes are taken from the arrays."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no C compiler `cc` on this machine")
    folder = tmp_path_factory.mktemp("printed")
    numbers = itertools.count()

    def run(printed: PrintedFunction, *arguments: Any) -> None:
        library = _build(compiler, folder / f"k{next(numbers)}", printed.source)
        getattr(library, printed.name)(*(_argument(parameter, arguments) for parameter in printed.parameters))

    return run


def _build(compiler: str, stem: Path, source: str) -> ctypes.CDLL:
    stem.with_suffix(".c").write_text(source, encoding="utf-8")
    command = [compiler, *FLAGS, "-o", str(stem.with_suffix(".so")), str(stem.with_suffix(".c")), "-lm"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{done.stderr}\n{source}"
    return ctypes.CDLL(str(stem.with_suffix(".so")))


def _argument(parameter: Any, arguments: tuple[Any, ...]) -> Any:
    value = arguments[parameter.position]
    if parameter.kind == "buffer":
        return value.ctypes.data_as(ctypes.c_void_p)
    if parameter.kind == "extent":
        value = value.shape[parameter.axis]
    elif parameter.kind == "stride":
        value = value.strides[parameter.axis] // value.itemsize
    return CTYPES[parameter.dtype](value)


@pytest.fixture
def same_bits() -> Callable[[np.ndarray, np.ndarray], None]:
    """Asserts equality to the last bit, where any NaN equals any NaN."""

    def check(actual: np.ndarray, expected: np.ndarray) -> None:
        assert actual.dtype == expected.dtype
        np.testing.assert_array_equal(actual, expected)
        if actual.dtype.kind == "f":
            kept = ~np.isnan(expected)
            np.testing.assert_array_equal(np.signbit(actual[kept]), np.signbit(expected[kept]))

    return check
