"""A compiled kernel: what `jit` and `compile` return.

What a kernel is called by is kept in a slot (`caller.py` says what, and why), so that a call enters no method.
"""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from tile_core.dtypes import DType, as_dtype
from tile_core.errors.runtime import ExportError, UnknownStageError
from tile_core.jit.artifact import Artifact, CompileRequest
from tile_core.jit.caller import Call, Caller
from tile_core.jit.footprint import footprint
from tile_core.jit.loaded import Loaded
from tile_core.jit.report import Report
from tile_core.jit.signature import PointerParam, Signature, TensorParam

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
        "_call",
        "_device",
        "_loaded",
        "caller",
        "key",
        "out_idx",
        "program",
        "request",
        "signature",
        "tuning",
    )

    __call__: Call

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
        self.caller = Caller(program, loaded.run, signature, out_idx, device)
        self._call: Call = self.caller.start(weakref.ref(self))

    def call_by(self, call: Call) -> None:
        """Let calls of this kernel be calls of `call`."""
        self._call = call

    def bind(self, *arguments: Any) -> tuple[Any, ...]:
        """Every parameter of a call in order: the arguments after all checks, and fresh outputs. Nothing runs.

        Raises:
            ArgumentError: an argument is wrong.
        """
        return self.caller.bind(arguments)

    def run(self, *parameters: Any) -> None:
        """Run on every parameter, outputs included, as `bind` makes them."""
        self.caller.run(parameters)

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


# A method would cost a frame of Python. The slot's descriptor gives what the kernel is called by.
JITKernel.__call__ = vars(JITKernel)["_call"]  # type: ignore[method-assign]


def _kernel_param(param: Any) -> KernelParam:
    if isinstance(param, TensorParam):
        shape = tuple(extent.text if extent.constant is None else extent.constant for extent in param.shape)
        return KernelParam(param.name, as_dtype(param.dtype), shape)
    dtype = "uint64" if isinstance(param, PointerParam) else param.dtype
    return KernelParam(param.name, as_dtype(dtype), ())
