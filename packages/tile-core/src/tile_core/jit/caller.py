"""How a kernel is called.

A call must cost less than the smallest torch operation, so with torch's tensors it does nothing in Python: as soon as
torch is there, machine code (`direct.py`) calls the packed function, which checks its arguments itself. Only when it
refuses does Python look at them, to adapt what DLPack cannot carry (a read-only array, a bfloat16 array of numpy) or to
raise the error that explains.

Nothing here refers to the kernel: it is freed with its last user, and with it what `compile` shares of it.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import tvm_ffi

from tile_core.errors.base import TileError
from tile_core.errors.device import KernelLaunchError
from tile_core.errors.interpreter import DeviceAssertError
from tile_core.errors.runtime import ArgumentCountError, ArgumentError, KeywordArgumentError
from tile_core.ir.asserts import ASSERTION_REMEDY, place_of, text_of
from tile_core.jit.adapt import adapt
from tile_core.jit.arguments import check, shown
from tile_core.jit.direct import direct_call, raise_last
from tile_core.jit.facts import any_lazy_sign
from tile_core.jit.host import ArgumentRefused
from tile_core.jit.loaded import Refusal
from tile_core.jit.outputs import Outputs
from tile_core.jit.signature import Signature

if TYPE_CHECKING:
    from tile_core.jit.kernel import JITKernel

Call = Callable[..., Any]


class Caller:
    """Calls the entry `run` of a program with the arguments of a call: all parameters but the outputs.

    `device` is the type of device of the kernel's memory, as torch spells it; `None` is the host.
    """

    __slots__ = (
        "_device",
        "_inputs",
        "_out_idx",
        "_outputs",
        "_program",
        "_run",
        "_signature",
        "attempt",
        "checks_itself",
    )

    def __init__(
        self, program: Any, run: Call, signature: Signature, out_idx: tuple[int, ...], device: str | None
    ) -> None:
        self._program, self._run, self._signature, self._device = program, run, signature, device
        self._out_idx = out_idx
        self._inputs = tuple(position for position in range(len(signature.params)) if position not in out_idx)
        self._outputs = Outputs(signature, out_idx, device or "cpu")
        # A packed function made by `packed_entry` checks its arguments; anything else is Python.
        self.checks_itself = isinstance(run, tvm_ffi.Function)
        self.attempt = self._outputs.bind(guarded(run))
        """The call without explanations: it raises whatever the entry raises, and refuses tensors of lazy sign."""

    def start(self, kernel: weakref.ref[JITKernel]) -> Call:
        """What a kernel is called by first."""
        if isinstance(self._run, Refusal):
            # Neither are arguments looked at nor outputs made on a device that is not there.
            return self._run
        return First(self, kernel) if self.checks_itself else self.checked

    def direct(self) -> Call | None:
        """What a kernel is called by once torch is there, `None` before."""
        count = len(self._signature.params)
        run = direct_call(self._run, count, guarded(self._run))
        if run is None:
            return None
        self.attempt = self._outputs.bind(run)
        if self._out_idx:
            return self.called
        return direct_call(self._run, count, self.called_otherwise, self.failed)

    def called(self, *arguments: Any, **keywords: Any) -> Any:
        """A call from Python, with explanations."""
        return self._called(self.attempt, arguments, keywords)

    def called_otherwise(self, *arguments: Any, **keywords: Any) -> Any:
        """A call whose arguments machine code left to Python: without outputs."""
        return self._called(guarded(self._run), arguments, keywords)

    def _called(self, attempt: Call, arguments: tuple[Any, ...], keywords: Mapping[str, Any]) -> Any:
        if keywords:
            raise self._keyword_error(keywords)
        try:
            return attempt(*arguments)
        except Exception as error:  # noqa: BLE001 - explained, or raised again
            return self._explained(arguments, error)

    def failed(self, *arguments: Any) -> Any:
        """What follows a call in machine code that was refused or failed."""
        try:
            raise_last()
        except Exception as error:  # noqa: BLE001 - explained, or raised again
            return self._explained(arguments, error)

    def checked(self, *arguments: Any, **keywords: Any) -> Any:
        """A call of a kernel that runs in Python: checks first."""
        if keywords:
            raise self._keyword_error(keywords)
        try:
            return self._outputs.call(self._run, arguments, self._check(arguments))
        except TileError as error:
            raise self.located(error, arguments) from error.__cause__

    def run(self, parameters: tuple[Any, ...]) -> None:
        """Run on every parameter, outputs included."""
        try:
            self._run(*parameters)
        except TileError as error:
            raise self.located(error, parameters) from None

    def bind(self, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
        """Every parameter of a call in order, after all checks; see `JITKernel.bind`."""
        bound: list[Any] = []
        self._outputs.call(lambda *every: bound.extend(every), arguments, self._check(arguments))
        return tuple(bound)

    def _explained(self, arguments: tuple[Any, ...], error: Exception) -> Any:
        if isinstance(error, TileError):
            raise self.located(error, arguments) from error.__cause__
        return self.recover(arguments, error)

    def located(self, error: TileError, arguments: Sequence[Any]) -> TileError:
        """An error of compiled code: with the line of an assertion, with the arguments of a launch that failed."""
        if isinstance(error, KernelLaunchError):
            error.message = f"{error.message}; the arguments are {shown(self._signature, self._inputs, arguments)}"
        if isinstance(error, DeviceAssertError) and error.span is None:
            error.span, error.message = place_of(error.message, self._program), text_of(error.message)
            error.remedy = ASSERTION_REMEDY
        return error

    def recover(self, arguments: tuple[Any, ...], error: Exception) -> Any:
        """Explain a refusal, or call again with arguments that can be passed. Other errors go on as they are."""
        try:
            adapted = self._check(arguments)
        except ArgumentError as explained:
            raise explained from None
        if any(value is not given for value, given in zip(adapted, arguments, strict=True)):
            # The entry cannot have accepted the arguments as they were, so nothing has run yet.
            return self._outputs.call(self._run, arguments, adapted)
        if isinstance(error, ArgumentRefused):
            raise ArgumentError(
                f"{self._signature} refused its arguments, and no check in Python tells why",
                remedy="report it with the kernel and the arguments' shapes, strides and dtypes",
            ) from error
        raise error

    def _check(self, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
        """The arguments in a form that can be passed, after all checks."""
        if len(arguments) != len(self._inputs):
            raise self._count_error(len(arguments)) from None
        given = dict(zip(self._inputs, arguments, strict=True))
        check(self._signature, given, self._device)
        return adapt(self._signature, given)

    def _count_error(self, given: int) -> ArgumentCountError:
        taken = [self._signature.params[position] for position in self._inputs]
        outputs = [self._signature.params[position].name for position in self._out_idx]
        made = f"; the call itself makes {', '.join(outputs)}" if outputs else ""
        return ArgumentCountError(
            f"{self._signature.name} takes {len(taken)} arguments, {given} were given",
            remedy=f"pass {', '.join(map(str, taken)) or 'nothing'}{made}",
        )

    def _keyword_error(self, keywords: Mapping[str, Any]) -> KeywordArgumentError:
        names = ", ".join(self._signature.params[position].name for position in self._inputs)
        return KeywordArgumentError(
            f"{self._signature.name} was called with the keyword arguments {', '.join(keywords)}",
            remedy=f"a compiled kernel takes its arguments by position: {names}",
        )


class First:
    """What a kernel is called by until torch is there: a call from Python."""

    __slots__ = ("_caller", "_kernel")

    def __init__(self, caller: Caller, kernel: weakref.ref[JITKernel]) -> None:
        self._caller, self._kernel = caller, kernel

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        """One call; all later ones of the kernel begin in machine code, where torch is there."""
        kernel, direct = self._kernel(), self._caller.direct()
        if kernel is not None and direct is not None:
            kernel.call_by(direct)
        return self._caller.called(*arguments, **keywords)


def guarded(run: Call) -> Call:
    """The entry `run` for any arguments: tensors of lazy sign are refused, as their memory tells nothing of it."""

    def guard(*parameters: Any) -> None:
        if any_lazy_sign(parameters):
            raise ArgumentRefused("the sign of a tensor is lazy")
        run(*parameters)

    return guard
