"""Where the user's program stands, from frames and tracebacks: rewritten code keeps the positions of the original."""

from __future__ import annotations

import functools
import inspect
import itertools
import os
import re
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from tile_core.errors.base import SourceSpan, TileError
from tile_core.errors.frontend import CallSignatureError
from tile_core.errors.suggest import did_you_mean

PACKAGE = str(Path(__file__).resolve().parents[1])
# The programs of the conformance kit are written as a user writes them.
PROGRAMS = str(Path(PACKAGE, "testing"))
# These apply the user's own operators and iterators to Python values; what those raise is the user's.
ON_BEHALF = tuple(
    str(Path(PACKAGE, "frontend", name)) for name in ("tracer.py", "binding.py", "control.py", "positions.py")
)
STANDARD_LIBRARY = str(Path(os.__file__).parent)
_KEYWORD = re.compile(r"unexpected keyword argument '(\w+)'")
ANNOTATION = "<annotation>"
"""The file name under which annotations written as strings are evaluated."""


@functools.cache
def _own_packages() -> tuple[str, ...]:
    """Where this package and the installed backends are; none is imported for the answer."""
    from importlib.metadata import entry_points
    from importlib.util import find_spec

    names = {point.module.partition(".")[0] for point in entry_points(group="tile.backends")}
    specs = (find_spec(name) for name in sorted(names))
    return (PACKAGE, *(f"{place}{os.sep}" for spec in specs if spec for place in spec.submodule_search_locations or ()))


def is_own_file(file: str) -> bool:
    """Whether a code object's file is part of this package, of a backend, or of TVM, Python or C++."""
    own = file.startswith(_own_packages()) and not file.startswith(PROGRAMS)
    return own or "/tvm/" in file or "/tvm_ffi/" in file or file.endswith((".cc", ".h", ".pyx", ".pxi"))


def is_standard_file(file: str) -> bool:
    """Whether a file is Python's own."""
    standard = file.startswith(STANDARD_LIBRARY) and "site-packages" not in file
    return standard or file.startswith("<frozen ") or file == ANNOTATION


def is_user_file(file: str) -> bool:
    """Whether a file is neither this package's, TVM's nor Python's."""
    return not (is_own_file(file) or is_standard_file(file))


def user_frame() -> types.FrameType | None:
    """The innermost frame on the stack that is the user's."""
    frame: types.FrameType | None = sys._getframe(1)
    while frame is not None and not is_user_file(frame.f_code.co_filename):
        frame = frame.f_back
    return frame


def caller_span() -> SourceSpan | None:
    """The place in the user's program from which the package was called."""
    frame = user_frame()
    return None if frame is None else _span(frame.f_code, frame.f_lasti, frame.f_lineno)


P = ParamSpec("P")
R = TypeVar("R")


def located(function: Callable[P, R]) -> Callable[P, R]:
    """Give errors of a function that is also called outside of a trace the line of its caller."""

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except TileError as error:
            error.span = error.span or caller_span()
            raise
        except TypeError as error:
            # Without a frame of the function, Python could not bind the arguments to its parameters.
            if error.__traceback__ is not None and error.__traceback__.tb_next is None:
                name = function.__qualname__.removesuffix(".__init__")
                text = str(error).replace(".__init__()", "()")
                raise CallSignatureError(
                    text, remedy=signature_remedy(name, function, text), span=caller_span()
                ) from None
            raise

    return call


def signature_remedy(name: str, function: Callable[..., Any], refusal: str) -> str:
    """What to do about arguments that `T.<name>` does not take: the keyword that was meant, or the place to look."""
    keyword = _KEYWORD.search(refusal)
    otherwise = f"see help(T.{name})"
    return did_you_mean(keyword[1], inspect.signature(function).parameters, otherwise, 2) if keyword else otherwise


def raised_at(error: BaseException) -> SourceSpan | None:
    """The innermost place in the user's program on an exception's traceback."""
    found = None
    trace = error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        if is_user_file(code.co_filename):
            found = _span(code, trace.tb_lasti, trace.tb_lineno)
        trace = trace.tb_next
    return found


def is_own_failure(error: BaseException) -> bool:
    """Whether an exception was raised by this package or TVM, or by Python on their behalf, not by the user's code."""
    own, trace = False, error.__traceback__
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if not is_standard_file(file):
            own = is_own_file(file) and file not in ON_BEHALF
        trace = trace.tb_next
    return own


def _span(code: types.CodeType, instruction: int, line: int | None) -> SourceSpan:
    positions = next(itertools.islice(code.co_positions(), instruction // 2, None), (None, None, None, None))
    start, end, column, end_column = positions
    start = start or line or code.co_firstlineno
    if column is None or end is None or end_column is None:
        return SourceSpan(code.co_filename, start, 0, start, 0)
    return SourceSpan(code.co_filename, start, column, end, end_column)
