"""Eager functions: the function that `@tl.jit` decorates is itself the kernel and declares its tensors in its body.

    @tl.jit
    def scale(A, factor: T.float32, block=256):
        n = T.const("n")
        A: T.Tensor((n,), "float32")
        B = T.empty((n,))
        with T.Kernel(T.ceildiv(n, block)) as bx: ...
        return B

Its parameters are of three kinds, told from the source: tensors, which the body declares; scalars, annotated with a
dtype, which are run-time arguments; and constants, all others, which are compiled in. The function is traced twice:
`signature` stops at the last declaration and leaves `T.const` symbols open, to be solved from the tensors of a call;
`trace` gets their values as Python ints.
"""

from __future__ import annotations

import ast
import contextlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NoReturn

from tvm import ir, tirx

from tile_core.dtypes import DType
from tile_core.errors.frontend import ParameterError, SymbolError
from tile_core.frontend.annotations import Tensor, make_parameter, scalar_dtype
from tile_core.frontend.builder import Builder, building
from tile_core.frontend.guard import reporting
from tile_core.frontend.markers import Marker
from tile_core.frontend.prim_func import finish, resolve
from tile_core.frontend.rewrite import rewritten_code, traced
from tile_core.frontend.source import function_source
from tile_core.frontend.values import Var

__all__ = ["EagerFunction", "EagerSignature", "ScalarSpec", "TensorSpec"]


@dataclass(frozen=True)
class TensorSpec:
    """A declared tensor.

    A dimension or stride is an int, the name of a `T.const`, or an `Expr` (a `Var` for a `T.dynamic`).
    """

    name: str
    shape: tuple[Any, ...]
    dtype: DType
    strides: tuple[Any, ...] = ()


@dataclass(frozen=True)
class ScalarSpec:
    """A run-time scalar."""

    name: str
    dtype: DType


@dataclass(frozen=True)
class EagerSignature:
    """What a call is checked and compiled against.

    Outputs are in the traced program: the parameters that its attribute `tile.out_idx` numbers.
    """

    tensors: tuple[TensorSpec, ...]
    scalars: tuple[ScalarSpec, ...]
    constants: tuple[str, ...]


@dataclass(frozen=True)
class Undeclared(Marker):
    """A tensor parameter before its declaration."""

    def refuse(self, name: str) -> NoReturn:
        """Raise ParameterError."""
        raise ParameterError(
            f"{name} is read before the body declares it",
            remedy=f"write {name}: T.Tensor(shape, dtype) before this line",
        )


class ConstVar(Var):
    """A `T.const` symbol while the signature is read."""

    __slots__ = ()


class _Declared(BaseException):
    """Unwinds the trace once the last tensor is declared."""


@dataclass
class EagerContext:
    """What `T.const` and declarations do: in the `signature` trace, symbols and a stop; in the full one, ints."""

    tensors: tuple[str, ...]
    dims: Mapping[str, int] | None
    declared: dict[str, ir.Var] = field(default_factory=dict)
    specs: dict[str, Tensor] = field(default_factory=dict)
    symbols: dict[str, Any] = field(default_factory=dict)

    def const(self, name: str, dtype: DType) -> Any:
        """The value of `T.const(name)`."""
        if name not in self.symbols:
            self.symbols[name] = self._value(name, dtype)
        return self.symbols[name]

    def _value(self, name: str, dtype: DType) -> Any:
        if self.dims is None:
            return ConstVar(tirx.Var(name, dtype.tvm))
        if name not in self.dims:
            raise SymbolError(
                f"T.const {name} has no value", remedy=f"make it a dimension of a tensor, or pass {name}=..."
            )
        return int(self.dims[name])

    def declare(self, name: str, old: Any, annotation: Any) -> Any:
        """`name: annotation` in the body."""
        if not isinstance(old, Undeclared):
            raise ParameterError(
                f"{name} is annotated in the body and is no tensor parameter that is still to be declared",
                remedy="declare each tensor parameter once; for a name write `name = value`",
            )
        parameter, value = make_parameter(name, annotation)
        self.declared[name] = parameter
        if isinstance(annotation, Tensor):
            self.specs[name] = annotation
        if self.dims is None and len(self.declared) == len(self.tensors):
            raise _Declared
        return value


class EagerFunction:
    """A function decorated with `@tl.jit`, as its source shows it. `outer` resolves annotations written as strings."""

    def __init__(self, func: Callable[..., Any], outer: Mapping[str, Any] | None = None) -> None:
        self.func = func
        self._outer = outer or {}
        self._parameters = inspect.signature(func).parameters
        inner = [node for statement in function_source(func).node.body for node in ast.walk(statement)]
        self.is_lazy = _is_factory(inner)
        """Whether it is a factory: it defines a `T.prim_func`, or opens no kernel itself."""
        declared = _declared_names(inner)
        self.tensor_names = tuple(name for name in self._parameters if name in declared)
        """The parameters that the body declares, in the signature's order."""

    @cached_property
    def scalar_dtypes(self) -> Mapping[str, DType]:
        """The run-time scalars: parameters annotated with a dtype of the language."""
        found = {}
        for name, parameter in self._parameters.items():
            annotation = parameter.annotation
            if annotation is inspect.Parameter.empty or name in self.tensor_names:
                continue
            try:
                annotation = resolve(self.func, annotation, self._outer)
            except ParameterError:
                # It is documentation, as far as it can be evaluated.
                continue
            if isinstance(annotation, DType) or type(annotation).__module__.partition(".")[0] == "torch":
                found[name] = scalar_dtype(name, annotation)
        return found

    @cached_property
    def constant_names(self) -> tuple[str, ...]:
        """The parameters that are compiled in."""
        return tuple(n for n in self._parameters if n not in self.tensor_names and n not in self.scalar_dtypes)

    def signature(self, constants: Mapping[str, Any]) -> EagerSignature:
        """The tensors and scalars for these constants.

        Raises:
            ParameterError: a constant without a value, or a tensor that is not declared.
            SymbolError: a `T.const` that is no dimension or stride of a tensor by itself.
        """
        context = EagerContext(self.tensor_names, None)
        builder = Builder(self.func.__name__)
        with building(builder), reporting(builder):
            if self.tensor_names:
                with contextlib.suppress(_Declared):
                    self._run(builder, context, constants)
                self._check_declared(context)
            tensors = tuple(_spec(name, context.specs[name]) for name in self.tensor_names if name in context.specs)
            self._check_solvable(context, tensors)
        scalars = tuple(ScalarSpec(name, dtype) for name, dtype in self.scalar_dtypes.items())
        return EagerSignature(tensors, scalars, tuple(context.symbols))

    def trace(self, constants: Mapping[str, Any], dims: Mapping[str, int]) -> tirx.PrimFunc:
        """The tile program for these constants and values of the `T.const` symbols.

        Its parameters are the function's tensors and scalars in order, then the tensors that `T.empty` made.
        """
        context = EagerContext(self.tensor_names, dims)
        builder = Builder(self.func.__name__)
        with building(builder), reporting(builder):
            result = self._run(builder, context, constants)
            self._check_declared(context)
            parameters = [context.declared[name] for name in self._parameters if name in context.declared]
            return finish(builder, parameters, result, rewritten_code(self.func).span)

    def _run(self, builder: Builder, context: EagerContext, constants: Mapping[str, Any]) -> Any:
        builder.eager = context
        body = traced(self.func)
        builder.at(rewritten_code(self.func).span)
        arguments: dict[str, Any] = {}
        for name, parameter in self._parameters.items():
            builder.unique_name(name)
            if name in self.tensor_names:
                arguments[name] = Undeclared()
            elif name in self.scalar_dtypes:
                var = tirx.Var(name, self.scalar_dtypes[name].tvm)
                arguments[name] = Var(var)
                if context.dims is not None:
                    context.declared[name] = var
            else:
                arguments[name] = _constant(name, parameter, constants)
        return body(**arguments)

    def _check_declared(self, context: EagerContext) -> None:
        missing = [name for name in self.tensor_names if name not in context.declared]
        if missing:
            raise ParameterError(
                f"the tensor {missing[0]} was not declared on the path taken",
                remedy=f"write {missing[0]}: T.Tensor(shape, dtype) outside of any condition",
            )

    def _check_solvable(self, context: EagerContext, tensors: tuple[TensorSpec, ...]) -> None:
        told = {extent for tensor in tensors for extent in (*tensor.shape, *tensor.strides) if isinstance(extent, str)}
        for name in context.symbols:
            if name not in told:
                raise SymbolError(
                    f"T.const {name} is no dimension or stride of a tensor by itself",
                    remedy=f"declare a tensor with the dimension {name}, or make {name} a parameter of the function",
                )


def _constant(name: str, parameter: inspect.Parameter, constants: Mapping[str, Any]) -> Any:
    if name in constants:
        return constants[name]
    if parameter.default is inspect.Parameter.empty:
        raise ParameterError(f"the compile-time parameter {name} has no value", remedy=f"pass {name}=...")
    return parameter.default


def _spec(name: str, tensor: Tensor) -> TensorSpec:
    def named(extents: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(extent.name if isinstance(extent, ConstVar) else extent for extent in extents)

    return TensorSpec(name, named(tensor.shape), tensor.dtype, named(tensor.strides))


def _is_factory(nodes: Sequence[ast.AST]) -> bool:
    if any(isinstance(node, ast.FunctionDef) and any(map(_names_prim_func, node.decorator_list)) for node in nodes):
        return True
    return not any(isinstance(node, ast.With) and any(_opens_kernel(item) for item in node.items) for node in nodes)


def _declared_names(nodes: Sequence[ast.AST]) -> set[str]:
    return {
        node.target.id
        for node in nodes
        if isinstance(node, ast.AnnAssign) and node.value is None and isinstance(node.target, ast.Name)
    }


def _names_prim_func(decorator: ast.expr) -> bool:
    target = decorator.func if isinstance(decorator, ast.Call) else decorator
    return getattr(target, "attr", getattr(target, "id", "")) == "prim_func"


def _opens_kernel(item: ast.withitem) -> bool:
    call = item.context_expr
    return isinstance(call, ast.Call) and getattr(call.func, "attr", getattr(call.func, "id", "")).endswith("Kernel")
