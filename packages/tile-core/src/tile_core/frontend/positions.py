"""Where the user's program stands, from frames and tracebacks: rewritten code keeps the positions of the original."""

from __future__ import annotations

import itertools
import sys
import types
from pathlib import Path

from tile_core.errors.base import SourceSpan

PACKAGE = str(Path(__file__).resolve().parents[1])


def is_user_file(file: str) -> bool:
    """Whether a code object's file belongs neither to this package nor to TVM."""
    return not (is_own_file(file) or is_tvm_file(file))


def is_own_file(file: str) -> bool:
    """Whether a file is part of this package."""
    return file.startswith(PACKAGE)


def is_tvm_file(file: str) -> bool:
    """Whether a file is TVM's, Python or C++."""
    return "/tvm/" in file or "/tvm_ffi/" in file or file.endswith((".cc", ".h", ".pyx", ".pxi"))


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


def innermost_file(error: BaseException) -> str:
    """The file of the frame that raised."""
    trace, file = error.__traceback__, ""
    while trace is not None:
        file, trace = trace.tb_frame.f_code.co_filename, trace.tb_next
    return file


def _span(code: types.CodeType, instruction: int, line: int | None) -> SourceSpan:
    positions = next(itertools.islice(code.co_positions(), instruction // 2, None), (None, None, None, None))
    start, end, column, end_column = positions
    start = start or line or code.co_firstlineno
    if column is None or end is None or end_column is None:
        return SourceSpan(code.co_filename, start, 0, start, 0)
    return SourceSpan(code.co_filename, start, column, end, end_column)
