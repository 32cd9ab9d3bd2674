"""A compiled kernel: what `jit` and `compile` return.

A call must cost less than the smallest torch operation, so it does nothing in Python: the packed function is kept in a
slot and checks its arguments itself. Only when it refuses does Python look at them, to adapt what DLPack cannot carry
(a read-only array, a bfloat16 array of numpy) or to raise the error that explains.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NoReturn

import tvm_ffi

from tile_core.dtypes import DType, as_dtype
from tile_core.errors.base import TileError
from tile_core.errors.device import KernelLaunchError
from tile_core.errors.interpreter import DeviceAssertError
from tile_core.errors.runtime import (
    ArgumentCountError,
    ArgumentError,
    ExportError,
    KeywordArgumentError,
    UnknownStageError,
)
from tile_core.ir.asserts import ASSERTION_REMEDY, place_of, text_of
from tile_core.jit.adapt import adapt
from tile_core.jit.arguments import check, shown
from tile_core.jit.artifact import Artifact, CompileRequest
from tile_core.jit.facts import any_lazy_sign
from tile_core.jit.footprint import footprint
from tile_core.jit.host import ArgumentRefused
from tile_core.jit.outputs import Outputs
from tile_core.jit.report import Report
from tile_core.jit.signature import PointerParam, ScalarParam, Signature, TensorParam

if TYPE_CHECKING:
    from tile_core.jit.profiler import Profiler, TensorSupplyType
    from tile_core.targets.target import Target

SourceKind = Literal["kernel", "host", "both"]
TRACED = "program"
"""The stage before the first pass: the program as traced."""


@dataclass(frozen=True)
class KernelParam:
    """One parameter: its name, dtype, and shape (ints, or the text of symbols and expressions); `()` for a scalar."""

    name: str
    dtype: DType
    shape: tuple[int | str, ...]


@dataclass(frozen=True)
class Tuning:
    """What the autotuner found out about a kernel; times in milliseconds, `None` where nothing was measured."""

    config: Mapping[str, Any]
    latency: float | None = None
    ref_latency: float | None = None


class Refusal:
    """What stands for the entry of a kernel that cannot run on this machine: calling it raises the error."""

    def __init__(self, error: TileError) -> None:
        self._error = error

    def __call__(self, *arguments: Any) -> NoReturn:
        """Refuse, whatever the arguments are."""
        raise type(self._error)(self._error.message, remedy=self._error.remedy)


class Loaded:
    """A compiled kernel that is alive in this process. Every `JITKernel` with its key shares it."""

    __slots__ = ("__weakref__", "artifact", "run")

    def __init__(self, artifact: Artifact, run: Callable[..., Any]) -> None:
        self.artifact = artifact
        self.run = run


class JITKernel:
    """A kernel compiled for one target, called with its tensors.

    Arguments are positional, in the order of the program's parameters without the outputs (`out_idx`, or tensors made
    by `T.empty` and returned). They are torch tensors, numpy arrays or any DLPack exporter, used in place on their
    device, and scalars. Without outputs the call returns `None`, with one output that tensor, with several a list.
    Outputs are of the library and on the device of the first tensor argument.

    Raises on a call:
        ArgumentError: an argument is wrong; nothing has run and nothing was written.
    """

    __slots__ = (
        "__weakref__",
        "_addressed",
        "_device",
        "_inputs",
        "_invoke",
        "_loaded",
        "_outputs",
        "attempt",
        "checks_itself",
        "key",
        "out_idx",
        "program",
        "request",
        "signature",
        "tuning",
    )

    def __init__(
        self,
        program: Any,
        request: CompileRequest,
        loaded: Loaded,
        signature: Signature,
        out_idx: tuple[int, ...] = (),
        *,
        key: str = "",
        device: str | None = None,
    ) -> None:
        self.program = program
        self.request = request
        self._loaded = loaded
        self.signature = signature
        self.out_idx = out_idx
        self.key = key
        self._device = device
        self.tuning: Tuning | None = None
        """Set by the autotuner on the kernel that it chose."""
        self._inputs = tuple(position for position in range(len(signature.params)) if position not in out_idx)
        self._addressed = tuple(
            order
            for order, position in enumerate(self._inputs)
            if not isinstance(signature.params[position], ScalarParam)
        )
        # A packed function made by `packed_entry` checks its arguments; anything else is a Python function.
        self.checks_itself = isinstance(loaded.run, tvm_ffi.Function)
        self._outputs = Outputs(signature, out_idx, self.device)
        self.attempt = self._outputs.bind(loaded.run)
        """The call without explanations: it raises whatever the entry raises."""
        self._invoke = self.attempt if self.checks_itself else self._checked
        if isinstance(loaded.run, Refusal):
            # Neither are arguments looked at nor outputs made on a device that is not there.
            self._invoke = loaded.run

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        """Run the kernel; see the class."""
        if keywords:
            raise self._keyword_error(keywords)
        try:
            # Written out here: a call of a helper would cost as much as the question.
            for position in self._addressed:
                if arguments[position].is_neg():
                    self._check(arguments)
        except (AttributeError, IndexError):  # arguments that are no torch tensors, or too few
            if any_lazy_sign(arguments):
                self._check(arguments)
        try:
            return self._invoke(*arguments)
        except Exception as error:
            if isinstance(error, TileError):
                raise self.located(error, arguments) from error.__cause__
            if not self.checks_itself:
                raise
            return self.recover(arguments, error)

    def located(self, error: TileError, arguments: Sequence[Any]) -> TileError:
        """An error of compiled code: with the line of an assertion, with the arguments of a launch that failed."""
        if isinstance(error, KernelLaunchError):
            error.message = f"{error.message}; the arguments are {shown(self.signature, self._inputs, arguments)}"
        if isinstance(error, DeviceAssertError) and error.span is None:
            error.span, error.message = place_of(error.message, self.program), text_of(error.message)
            error.remedy = ASSERTION_REMEDY
        return error

    def bind(self, *arguments: Any) -> tuple[Any, ...]:
        """Every parameter of a call in order: the arguments after all checks, and fresh outputs. Nothing runs.

        Raises:
            ArgumentError: an argument is wrong.
        """
        bound: list[Any] = []
        self._outputs.call(lambda *every: bound.extend(every), arguments, self._check(arguments))
        return tuple(bound)

    def run(self, *parameters: Any) -> None:
        """Run on every parameter, outputs included, as `bind` makes them."""
        try:
            self._loaded.run(*parameters)
        except TileError as error:
            raise self.located(error, parameters) from None

    def _checked(self, *arguments: Any) -> Any:
        """A call of a kernel that runs in Python: checks first."""
        return self._outputs.call(self._loaded.run, arguments, self._check(arguments))

    def recover(self, arguments: tuple[Any, ...], error: Exception) -> Any:
        """Explain a refusal, or call again with arguments that can be passed. Other errors go on as they are."""
        try:
            adapted = self._check(arguments)
        except ArgumentError as explained:
            raise explained from None
        if any(value is not given for value, given in zip(adapted, arguments, strict=True)):
            # The entry cannot have accepted the arguments as they were, so nothing has run yet.
            return self._outputs.call(self._loaded.run, arguments, adapted)
        if isinstance(error, ArgumentRefused):
            raise ArgumentError(
                f"{self.signature} refused its arguments, and no check in Python tells why",
                remedy="report it with the kernel and the arguments' shapes, strides and dtypes",
            ) from error
        raise error

    def _check(self, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
        """The arguments in a form that can be passed, after all checks."""
        if len(arguments) != len(self._inputs):
            raise self._count_error(len(arguments)) from None
        given = dict(zip(self._inputs, arguments, strict=True))
        check(self.signature, given, self._device)
        return adapt(self.signature, given)

    def _count_error(self, given: int) -> ArgumentCountError:
        taken = [self.signature.params[position] for position in self._inputs]
        outputs = [self.signature.params[position].name for position in self.out_idx]
        made = f"; the call itself makes {', '.join(outputs)}" if outputs else ""
        return ArgumentCountError(
            f"{self.signature.name} takes {len(taken)} arguments, {given} were given",
            remedy=f"pass {', '.join(map(str, taken)) or 'nothing'}{made}",
        )

    def _keyword_error(self, keywords: Mapping[str, Any]) -> KeywordArgumentError:
        names = ", ".join(self.signature.params[position].name for position in self._inputs)
        return KeywordArgumentError(
            f"{self.signature.name} was called with the keyword arguments {', '.join(keywords)}",
            remedy=f"a compiled kernel takes its arguments by position: {names}",
        )

    @property
    def artifact(self) -> Artifact:
        """What the backend's compiler made: files, sources and report."""
        return self._loaded.artifact

    @property
    def target(self) -> Target:
        """What the kernel was compiled for."""
        target: Target = self.request.target
        return target

    @property
    def device(self) -> str:
        """The type of device whose memory the kernel works on, as torch spells it."""
        return self._device or "cpu"

    @property
    def name(self) -> str:
        """The name of the program."""
        return self.signature.name

    @property
    def params(self) -> list[KernelParam]:
        """Every parameter in order, outputs included."""
        return [_kernel_param(param) for param in self.signature.params]

    @property
    def kernel_source(self) -> str:
        """The device source, as the backend printed it."""
        return self.artifact.kernel_source

    @property
    def host_source(self) -> str:
        """The source of the host side; empty where the backend has none."""
        return self.artifact.host_source

    def get_kernel_source(self, kernel_only: bool = True) -> str:
        """The device source; with `kernel_only=False` the host source in front of it."""
        if kernel_only or not self.host_source:
            return self.kernel_source
        return f"{self.host_source}\n{self.kernel_source}"

    def get_host_source(self) -> str:
        """The source of the host side."""
        return self.host_source

    def show_source(self, which: SourceKind = "kernel") -> None:
        """Print sources to stdout.

        Raises:
            ExportError: `which` is not one of "kernel", "host", "both".
        """
        print(self._source(which))  # noqa: T201 - what the method is for

    def _source(self, which: str) -> str:
        choices = {"kernel": True, "both": False}
        if which == "host":
            return self.host_source
        if which not in choices:
            raise ExportError(
                f'there is no source {which!r}, expected "kernel", "host" or "both"',
                remedy='write "kernel", "host" or "both"',
            )
        return self.get_kernel_source(kernel_only=choices[which])

    def export_sources(self, kernel_path: str | Path | None = None, host_path: str | Path | None = None) -> None:
        """Write the sources to files, whether the kernel was compiled now or came from the cache.

        Raises:
            ExportError: no path was given, or the backend has no host source.
        """
        if kernel_path is None and host_path is None:
            raise ExportError(
                "neither kernel_path nor host_path was given", remedy="give kernel_path=, host_path= or both"
            )
        if host_path is not None and not self.host_source:
            raise ExportError(f"a kernel for {self.target.kind} has no host source", remedy="export kernel_path only")
        for path, text in ((kernel_path, self.kernel_source), (host_path, self.host_source)):
            if path is not None:
                Path(path).write_text(text, encoding="utf-8")

    @property
    def stages(self) -> tuple[str, ...]:
        """The names that `ir` takes: the traced program, then every pass of the pipeline."""
        from tile_core.passes.pipeline import build_pipeline

        return (TRACED, *(step.name for step in build_pipeline(self._backend(), self.target)))

    def ir(self, stage: str | None = None) -> str:
        """The program's text after the pass `stage`, by default the last one. Recompiled on request, never stored.

        Raises:
            UnknownStageError: the pipeline has no such pass.
        """
        if stage == TRACED:
            return str(self.program.script())
        return str(self._lowered(stage).script())

    def _lowered(self, stage: str | None) -> Any:
        from tile_core.passes.lower import lower

        stages = self.stages
        if stage is not None and stage not in stages:
            raise UnknownStageError(f"there is no stage {stage!r}", remedy=f"the stages are {', '.join(stages)}")
        seen: dict[str, Any] = {}
        observer = (lambda name, func: None, seen.__setitem__)
        final, _ = lower(self.program, self.request, self._backend(), observers=[observer])
        return final if stage is None else seen[stage]

    def _backend(self) -> Any:
        from tile_core.plugins.manager import backend

        return backend(self.target.backend)

    def report(self) -> Report:
        """What the compiler tells about the kernel: a mapping that prints as a table.

        `footprint` is what the program declares, the same on every target; the rest is what this target made of it.
        """
        facts = {
            "target": str(self.target),
            "parameters": list(map(str, self.signature.params)),
            "footprint": footprint(self.program),
        }
        return Report(self.name, {**facts, **self.artifact.report})

    @property
    def config(self) -> Mapping[str, Any] | None:
        """The config that the autotuner chose; `None` for a kernel that was not tuned."""
        return None if self.tuning is None else self.tuning.config

    @property
    def latency(self) -> float | None:
        """Milliseconds of a call, as the autotuner measured them."""
        return None if self.tuning is None else self.tuning.latency

    @property
    def ref_latency(self) -> float | None:
        """Milliseconds of the tuner's reference program."""
        return None if self.tuning is None else self.tuning.ref_latency

    def get_profiler(self, tensor_supply_type: TensorSupplyType | None = None) -> Profiler:
        """A profiler for this kernel: times it, and compares it to a reference."""
        from tile_core.jit.profiler import Profiler, TensorSupplyType

        return Profiler(self, TensorSupplyType.Auto if tensor_supply_type is None else tensor_supply_type)

    def __repr__(self) -> str:
        return f"JITKernel({self.signature}, target={self.target.kind!r})"


def _kernel_param(param: Any) -> KernelParam:
    if isinstance(param, TensorParam):
        shape = tuple(extent.text if extent.constant is None else extent.constant for extent in param.shape)
        return KernelParam(param.name, as_dtype(param.dtype), shape)
    dtype = "uint64" if isinstance(param, PointerParam) else param.dtype
    return KernelParam(param.name, as_dtype(dtype), ())
