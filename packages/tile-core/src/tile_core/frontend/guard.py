"""What leaves a trace as an exception: a coded error at the user's line, or the user's own exception unchanged."""

from __future__ import annotations

import contextlib
import re
import sys
import types
from collections.abc import Iterator
from typing import Any

from tvm import tirx

from tile_core.errors.base import TileError
from tile_core.errors.frontend import (
    CallSignatureError,
    ControlFlowError,
    DeviceValueAsNumberError,
    ExceptionInDeviceCodeError,
    InternalCompilerError,
    OperandError,
    UndefinedNameError,
    ValueAttributeError,
)
from tile_core.errors.suggest import did_you_mean
from tile_core.frontend.builder import Builder
from tile_core.frontend.exprs import Value
from tile_core.frontend.positions import is_own_failure, is_own_file, raised_at, signature_remedy

_SIGNATURE = re.compile(
    r"(\w+\.)*(?P<name>\w+)\(\) (missing \d+ required|takes |got an unexpected keyword|got multiple values|got some )"
)
_OUR_VALUES = re.compile(r"\b(Element|Expr|Var|VarCell|Buffer|Region)\b")


@contextlib.contextmanager
def reporting(builder: Builder) -> Iterator[None]:
    """Give errors their place, and turn failures that are not the user's into coded errors."""
    try:
        yield
    except TileError as error:
        if error.span is None:
            error.span = raised_at(error) or builder.source_span
        raise
    except Exception as error:
        coded = _coded(error)
        if coded is None:
            raise
        place = raised_at(error)
        # What a library raised about its arguments is about the line that called it.
        coded.span = place if place is not None and "site-packages" not in place.file else builder.source_span or place
        raise coded from error


def refuse_swallowed(builder: Builder) -> None:
    """Refuse a trace in which an exception left a region half traced and was caught."""
    if builder.broken is not None:
        error, span = builder.broken
        raise ExceptionInDeviceCodeError(
            f"{type(error).__name__} left a loop, branch or kernel and was caught in the traced function",
            remedy="put the `try` inside the region, or around the whole function",
            span=span,
        )


def _coded(error: Exception) -> TileError | None:
    if isinstance(error, RecursionError):
        return ControlFlowError(
            "functions call each other without end", remedy="end a recursion by a condition that is known while tracing"
        )
    if _called_a_program(error):
        return CallSignatureError(
            "a traced function cannot call a T.prim_func", remedy="decorate the helper with @T.macro instead"
        )
    if isinstance(error, KeyError) and any(isinstance(key, Value) for key in error.args):
        return DeviceValueAsNumberError(
            f"a dict is looked up by the device value {error.args[0]}",
            remedy="put the data into a buffer to index it by a device value",
        )
    if isinstance(error, ValueError | RuntimeError) and "ambiguous" in str(error):
        return OperandError(
            f"a tensor stands where one number or truth value is meant: {_first_line(error)}",
            remedy="pass a Python number, or take one out of it with .item()",
        )
    if isinstance(error, AttributeError) and isinstance(error.obj, types.ModuleType) and _is_own_module(error.obj):
        return ValueAttributeError(str(error), remedy=_other_name(error.obj, str(error.name)))
    if is_own_failure(error):
        return InternalCompilerError(
            f"{type(error).__name__}: {_first_line(error)}",
            remedy="the program may be wrong at this line; that it was not refused properly is a fault of the compiler",
        )
    if isinstance(error, NameError):
        return UndefinedNameError(str(error), remedy="define the name before this line, or pass it as an argument")
    text = re.sub(r"\.__(init|new)__\(\)", "()", str(error))
    match = _SIGNATURE.match(text) if isinstance(error, TypeError) else None
    function = match and _called_by_name(error, match["name"])
    if match is not None and function is not None:
        return CallSignatureError(text, remedy=signature_remedy(match["name"], function, text))
    if isinstance(error, IndexError) and str(error).startswith("only integers, slices"):
        return DeviceValueAsNumberError(
            f"an array of numpy is indexed by no number of Python: {_first_line(error)}",
            remedy="pass the array as a tensor parameter to index it by a value of the kernel",
        )
    if isinstance(error, TypeError) and _OUR_VALUES.search(str(error)):
        return DeviceValueAsNumberError(
            f"a function of Python was given a value that is known only when the kernel runs: {_first_line(error)}",
            remedy="use the function of the language, such as T.exp for np.exp or torch.exp; dir(T) lists them",
        )
    return None


def _is_own_module(module: types.ModuleType) -> bool:
    return is_own_file(getattr(module, "__file__", None) or "")


def _other_name(module: types.ModuleType, name: str) -> str:
    """Where a name that a module lacks may be found."""
    language = sys.modules.get("tile_core.language")
    if language is not None and name in language.__all__:
        return f"write T.{name}, with `import tile_core.language as T`"
    return did_you_mean(name, dir(module), f"dir({module.__name__}) lists its names")


def _called_a_program(error: Exception) -> bool:
    trace = error.__traceback__
    while trace is not None:
        if isinstance(trace.tb_frame.f_locals.get("self"), tirx.PrimFunc):
            return True
        trace = trace.tb_next
    return False


def _called_by_name(error: Exception, name: str) -> Any:
    """The function `name` of this package that the frame of a refused call has, itself or in a module, or `None`."""
    trace = error.__traceback__
    assert trace is not None
    while trace.tb_next is not None:
        trace = trace.tb_next
    frame = trace.tb_frame
    scope = {**frame.f_globals, **frame.f_locals}
    modules = [value for value in scope.values() if isinstance(value, types.ModuleType)]
    found = [*scope.values(), *(vars(module).get(name) for module in modules)]
    return next((value for value in found if getattr(value, "__name__", None) == name and _is_own(value)), None)


def _is_own(value: Any) -> bool:
    home = sys.modules.get(getattr(value, "__module__", None) or "")
    return is_own_file(getattr(home, "__file__", None) or "")


def _first_line(error: Exception) -> str:
    return next((line for line in str(error).splitlines() if line.strip()), "no message")
