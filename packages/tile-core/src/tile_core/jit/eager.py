"""Eager mode: a call with tensors finds or makes the kernel for their sizes, and runs it.

The way of a call: constants (compile-time parameters) give the declared tensors; the tensors give the values of
`T.const` symbols; constants and values together are the key of a kernel. To do this for every call would cost several
times the kernel's own call, so a plain call first tries the kernel of the plain call before it, if no captured value
has changed. That is safe because sizes are compiled in: a kernel for other sizes refuses the tensors before anything
runs.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tile_core.errors.base import TileError
from tile_core.errors.runtime import (
    ArgumentCountError,
    ArgumentLayoutError,
    ArgumentRankError,
    ArgumentShapeError,
    ArgumentTypeError,
    CompileTimeArgumentError,
    MissingArgumentError,
)
from tile_core.jit.captures import Captures
from tile_core.jit.compile import compile as compile_program
from tile_core.jit.facts import describe
from tile_core.jit.freeze import freeze, is_tensor

if TYPE_CHECKING:
    from tile_core.frontend.eager import EagerFunction, EagerSignature, TensorSpec
    from tile_core.jit.kernel import JITKernel

_EMPTY = inspect.Parameter.empty


@dataclass(frozen=True)
class _Call:
    """The arguments of one call, sorted by kind. `given` holds values of `T.const` symbols passed by name."""

    constants: Mapping[str, Any]
    runtime: Mapping[str, Any]
    given: Mapping[str, Any]


class EagerMode:
    """The kernels of one eager function, one for each set of compile-time values, captured ones among them."""

    def __init__(self, function: EagerFunction, options: Mapping[str, Any]) -> None:
        self._function = function
        self._options = {name: value for name, value in options.items() if name != "out_idx"}
        self._name = function.func.__name__
        self._parameters = inspect.signature(function.func).parameters
        self._runtime = tuple(name for name in self._parameters if name not in function.constant_names)
        self._captures = Captures(function.func)
        self._signatures: dict[Hashable, EagerSignature] = {}
        self._kernels: dict[Hashable, JITKernel] = {}
        self._lock = threading.Lock()
        # A plain call gives the run-time arguments by position and leaves every constant at its default.
        self._plain = len(self._runtime) if tuple(self._parameters)[: len(self._runtime)] == self._runtime else -1
        self._last: JITKernel | None = None

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        """Compile for these tensors where needed, and run.

        Raises:
            ArgumentError: a tensor or scalar is wrong; nothing has run.
            CompileTimeArgumentError: a compile-time argument is wrong.
            TileError: the program is refused.
        """
        last = self._last
        plain = not keywords and len(arguments) == self._plain
        if last is None or not plain or not self._captures.unchanged():
            return self._slow(arguments, keywords, plain=plain)
        try:
            return last.caller.attempt(*arguments)
        except TileError as error:
            raise last.caller.located(error, arguments) from None
        except Exception as error:  # noqa: BLE001 - explained by `recover`, which raises what it does not know
            kernel = self.kernel(*arguments)
            if kernel is last:
                return kernel.caller.recover(arguments, error)
            self._last = kernel
        return kernel(*arguments)

    def _slow(self, arguments: tuple[Any, ...], keywords: Mapping[str, Any], *, plain: bool) -> Any:
        call = self._bind(arguments, keywords)
        missing = [name for name in self._runtime if name not in call.runtime]
        if missing:
            raise ArgumentCountError(
                f"{self._name} was called without {', '.join(f'`{name}`' for name in missing)}",
                remedy=f"its run-time arguments are {', '.join(self._runtime)}",
            )
        signature, dims = self._solve(call)
        kernel = self._kernel(call, signature, dims)
        if plain and kernel.caller.checks_itself and _all_extents(signature):
            self._last = kernel
        return kernel(*(call.runtime[name] for name in self._runtime))

    @property
    def runtime_names(self) -> tuple[str, ...]:
        """The parameters that go to the kernel."""
        return self._runtime

    def kernel(self, *arguments: Any, **keywords: Any) -> JITKernel:
        """The kernel for these arguments; tensors may be left out where their sizes are given by name."""
        call = self._bind(arguments, keywords)
        return self._kernel(call, *self._solve(call))

    def program(self, *arguments: Any, **keywords: Any) -> Any:
        """The tile program for these arguments."""
        call = self._bind(arguments, keywords)
        return self._function.trace(call.constants, self._solve(call)[1])

    def key(self, *arguments: Any, **keywords: Any) -> Hashable:
        """The compile-time values of a call in hashable form."""
        call = self._bind(arguments, keywords)
        return self._key(call, self._solve(call)[1])

    def _key(self, call: _Call, dims: Mapping[str, int]) -> Hashable:
        return self._captures.token(), freeze(call.constants), tuple(sorted(dims.items()))

    def _kernel(self, call: _Call, signature: EagerSignature, dims: Mapping[str, int]) -> JITKernel:
        key = self._key(call, dims)
        found = self._kernels.get(key)
        if found is None:
            made = compile_program(self._function.trace(call.constants, dims), **self._options)
            with self._lock:
                found = self._kernels.setdefault(key, made)
        return found

    def _bind(self, arguments: tuple[Any, ...], keywords: Mapping[str, Any]) -> _Call:
        """Sort the arguments of a call by kind."""
        names = tuple(self._parameters)
        if len(arguments) > len(names):
            raise ArgumentCountError(
                f"{self._name} takes at most {len(names)} arguments, {len(arguments)} were given",
                remedy=f"its parameters are {', '.join(names)}",
            )
        values = dict(zip(names, arguments, strict=False))
        given: dict[str, Any] = {}
        for name, value in keywords.items():
            if name in values:
                raise CompileTimeArgumentError(
                    f"{self._name} got several values for {name!r}", remedy="give it once, by position or by name"
                )
            (values if name in self._parameters else given)[name] = value
        runtime = {name: values[name] for name in self._runtime if name in values}
        return _Call(self._constants(values), runtime, given)

    def _constants(self, values: Mapping[str, Any]) -> Mapping[str, Any]:
        constants = {}
        for name in self._function.constant_names:
            value = values.get(name, self._parameters[name].default)
            if value is _EMPTY:
                raise CompileTimeArgumentError(
                    f"{self._name} was called without its compile-time parameter {name!r}", remedy=f"pass {name}=..."
                )
            if is_tensor(value):
                raise CompileTimeArgumentError(
                    f"{self._name} was given a {type(value).__name__} for {name!r}, which its body does not declare",
                    remedy=f"declare the tensor in the body, `{name}: T.Tensor(shape, dtype)`",
                )
            constants[name] = value
        return constants

    def _signature(self, call: _Call) -> EagerSignature:
        key = self._captures.token(), freeze(call.constants)
        found = self._signatures.get(key)
        if found is None:
            found = self._signatures[key] = self._function.signature(call.constants)
        return found

    def _solve(self, call: _Call) -> tuple[EagerSignature, dict[str, int]]:
        """The value of each `T.const`: given by name, else read from the tensors."""
        signature = self._signature(call)
        unknown = sorted(set(call.given).difference(signature.constants))
        if unknown:
            raise CompileTimeArgumentError(
                f"{self._name} has no parameter and no T.const called {unknown[0]!r}",
                remedy=f"its parameters are {', '.join(self._parameters)}",
            )
        solver = _Solver(self._name, {name: int(value) for name, value in call.given.items()})
        for spec in signature.tensors:
            if call.runtime.get(spec.name) is not None:
                solver.read(spec, call.runtime[spec.name])
        return signature, solver.finish(signature)


def _all_extents(signature: EagerSignature) -> bool:
    """Whether every `T.const` is an extent somewhere: strides of dimensions of size 1 are not checked by a kernel."""
    extents = {extent for spec in signature.tensors for extent in spec.shape if isinstance(extent, str)}
    return extents.issuperset(signature.constants)


class _Solver:
    """Reads the values of `T.const` symbols from tensors."""

    def __init__(self, name: str, given: dict[str, int]) -> None:
        self._name = name
        self._values = dict(given)
        self._origin = dict.fromkeys(given, "the keyword argument")

    def read(self, spec: TensorSpec, value: Any) -> None:
        """Take the extents and strides that are symbols of their own."""
        try:
            facts = describe(value)
        except ArgumentLayoutError as error:
            raise ArgumentLayoutError(f"`{spec.name}` of {self._name}: {error.message}", remedy=error.remedy) from None
        if facts is None:
            raise ArgumentTypeError(
                f"`{spec.name}` of {self._name} is a tensor, got {type(value).__name__} {value!r:.40}",
                remedy="pass a torch tensor, a numpy array or another DLPack exporter",
            )
        if len(facts.shape) != len(spec.shape):
            raise ArgumentRankError(
                f"`{spec.name}` of {self._name}: expected {len(spec.shape)} dimensions, got {len(facts.shape)} "
                f"{list(facts.shape)}",
                remedy="reshape the tensor, or declare it with as many dimensions",
            )
        per_byte = spec.dtype.per_byte
        last = len(spec.shape) - 1
        for axis, (extent, size) in enumerate(zip(spec.shape, facts.shape, strict=True)):
            packed = per_byte if axis == last else 1
            self._take(spec, extent, size * packed, f"dimension {axis}")
        for axis, (stride, step) in enumerate(zip(spec.strides, facts.strides, strict=False)):
            if facts.shape[axis] != 1:
                self._take(spec, stride, step * (1 if axis == last else per_byte), f"stride {axis}")

    def _take(self, spec: TensorSpec, symbol: Any, value: int, what: str) -> None:
        if not isinstance(symbol, str):
            return
        known = self._values.setdefault(symbol, value)
        origin = self._origin.setdefault(symbol, f"{what} of `{spec.name}`")
        if known != value:
            raise ArgumentShapeError(
                f"`{spec.name}` of {self._name}: {what} is {value}, expected {known} (`{symbol}` from {origin})",
                remedy="pass tensors whose sizes agree",
            )

    def finish(self, signature: EagerSignature) -> dict[str, int]:
        """The values of all symbols."""
        for symbol in signature.constants:
            if symbol not in self._values:
                raise MissingArgumentError(
                    f"{self._name}: no tensor was given that tells `{symbol}`",
                    remedy=f"pass the tensors, or {symbol}=... by name",
                )
        return self._values
