"""`T.prim_func`: executes the rewritten function once; what it emitted is the tile program."""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Mapping
from typing import Any, NoReturn, overload

from tvm import ir, tirx

from tile_core.errors.base import SourceSpan
from tile_core.errors.frontend import CallSignatureError, OutputError, ParameterError, ReturnValueError
from tile_core.errors.runtime import NotAKernelError
from tile_core.frontend.annotations import make_parameter
from tile_core.frontend.builder import Builder, active_builder, building
from tile_core.frontend.guard import refuse_swallowed, reporting
from tile_core.frontend.positions import ANNOTATION, caller_span, located, user_frame
from tile_core.frontend.rewrite import require_function, rewritten_code, traced
from tile_core.frontend.values import Buffer
from tile_core.frontend.verify import verify_scopes
from tile_core.ir.marks import OUT_IDX

__all__ = ["prim_func"]


@overload
def prim_func(func: Callable[..., Any]) -> tirx.PrimFunc: ...


@overload
def prim_func(func: None = None) -> Callable[[Callable[..., Any]], tirx.PrimFunc]: ...


@located
def prim_func(func: Callable[..., Any] | None = None) -> Any:
    """Turn a Python function into a tile program; usable with and without parentheses.

    Every parameter is annotated: `A: T.Tensor((M, N), dtype)`, `n: T.int32`, `p: T.ptr`. The body is run once, now:
    Python values are decided, operations on tensors and indices become the program. Returns a `tirx.PrimFunc` with the
    function's name.

    Raises:
        TileError: an invalid program, at the line that is at fault.

    Example:
        @T.prim_func
        def double(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32")):
            with T.Kernel(1, threads=64):
                for i in T.Parallel(64):
                    B[i] = A[i] * 2

        kernel = tl.compile(double, target="interpret")
    """
    frame = user_frame()
    outer = {} if frame is None else frame.f_locals
    if func is None:
        return lambda given: trace_function(given, outer)
    require_function(func, "T.prim_func")
    return trace_function(func, outer)


class TileProgram(tirx.PrimFunc):
    """A traced function. It is a program, not yet a kernel: calling it says what to do instead."""

    def __call__(self, *arguments: Any, **keywords: Any) -> NoReturn:
        """Raise.

        Raises:
            CallSignatureError: called by a traced function.
            NotAKernelError: called with tensors.
        """
        name = str(self.attrs["global_symbol"])
        if active_builder() is not None:
            raise CallSignatureError(
                f"a traced function cannot call {name}, a T.prim_func",
                remedy="decorate the helper with @T.macro instead",
            )
        raise NotAKernelError(
            f"{name} is a program that is not compiled yet, and was called",
            remedy=f"compile it: kernel = tl.compile({name}); kernel(...)",
            span=caller_span(),
        )


def trace_function(func: Callable[..., Any], outer: Mapping[str, Any]) -> tirx.PrimFunc:
    """Trace `func`; `outer` resolves annotations written as strings."""
    builder = Builder(func.__name__)
    with building(builder), reporting(builder):
        body = traced(func)
        builder.at(rewritten_code(func).span)
        parameters: list[ir.Var] = []
        arguments: dict[str, Any] = {}
        for name, annotation in annotated_parameters(func, outer).items():
            builder.unique_name(name)
            parameter, arguments[name] = make_parameter(name, annotation)
            parameters.append(parameter)
        result = body(**arguments)
        return finish(builder, parameters, result, rewritten_code(func).span)


def finish(builder: Builder, parameters: list[ir.Var], result: Any, span: SourceSpan) -> tirx.PrimFunc:
    """The function made of what was emitted, with the tensors of `T.empty` as last parameters.

    Raises:
        OutputError, ReturnValueError: what is returned and what `T.empty` made differ.
        ScopeError, SymbolError: see `verify_scopes`.
    """
    refuse_swallowed(builder)
    outputs = _outputs(builder, result)
    every = [*parameters, *(output.ir for output in outputs)]
    body = builder.frames[0].body()
    builder.at(span)
    verify_scopes(body, every)
    func = tirx.PrimFunc(every, body).with_attr("global_symbol", builder.name)
    for key, value in builder.attributes.items():
        func = func.with_attr(key, value)
    if outputs:
        func = func.with_attr(OUT_IDX, list(range(len(parameters), len(every))))
    return TileProgram(func.params, func.body, func.ret_type, func.attrs, func.span)


def _outputs(builder: Builder, result: Any) -> list[Buffer]:
    returned = [] if result is None else list(result) if isinstance(result, tuple | list) else [result]
    made = {id(output) for output in builder.outputs}
    for value in returned:
        if id(value) not in made:
            raise ReturnValueError(
                f"the function returns {value!r}, which T.empty did not make",
                remedy="return tensors made with T.empty, or store the result in a tensor parameter",
            )
    missing = [output.name for output in builder.outputs if all(output is not value for value in returned)]
    if missing:
        raise OutputError(f"{', '.join(missing)} made by T.empty is not returned", remedy="return it")
    if len({id(value) for value in returned}) != len(returned):
        raise OutputError("one T.empty tensor is returned twice", remedy="return each tensor once")
    return returned


def annotated_parameters(func: Callable[..., Any], outer: Mapping[str, Any]) -> dict[str, Any]:
    """The annotations of every parameter, evaluated where they are strings.

    Raises:
        ParameterError: no annotation, or a kind of parameter that a kernel cannot have.
    """
    signature = inspect.signature(func)
    found: dict[str, Any] = {}
    for name, parameter in signature.parameters.items():
        if parameter.kind not in (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY):
            raise ParameterError(
                f"the parameter {name} is {parameter.kind.description}", remedy="use ordinary named parameters"
            )
        if parameter.annotation is inspect.Parameter.empty:
            raise ParameterError(
                f"the parameter {name} has no annotation",
                remedy=f"write {name}: T.Tensor(shape, dtype) for a tensor, {name}: T.int32 for a scalar",
            )
        found[name] = resolve(func, parameter.annotation, outer)
    return found


def resolve(func: Callable[..., Any], annotation: Any, outer: Mapping[str, Any]) -> Any:
    """An annotation's value: a string is evaluated in the function's scope and the one around it.

    Raises:
        ParameterError: the string's own expression fails, other than by a name that is not known.
    """
    if type(annotation) is not str:
        return annotation
    cells = zip(func.__code__.co_freevars, func.__closure__ or (), strict=True)
    scope = {**outer, **{name: cell.cell_contents for name, cell in cells if not _is_empty(cell)}}
    try:
        value = eval(compile(annotation, ANNOTATION, "eval"), func.__globals__, scope)  # noqa: S307
    except (NameError, SyntaxError):
        return annotation
    except Exception as error:
        if not _raised_in_annotation(error):
            raise
        raise ParameterError(
            f"the annotation `{annotation}` of {func.__name__} fails: {type(error).__name__}: {error}",
            remedy="correct the expression",
        ) from error
    return resolve(func, value, outer) if value != annotation else value


def _raised_in_annotation(error: Exception) -> bool:
    """Whether the annotation's own expression raised, not a function that it calls."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace is not None and trace.tb_frame.f_code.co_filename == ANNOTATION


def _is_empty(cell: types.CellType) -> bool:
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return True
    return False
