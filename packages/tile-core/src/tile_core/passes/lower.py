"""One call from a traced program to a lowered one, for every backend's compiler."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from tile_core.errors.base import TileError
from tile_core.errors.passes import PassFailedError
from tile_core.passes.base import Observer, PassContext, Pipeline, run_pipeline
from tile_core.passes.observe import observers as default_observers
from tile_core.passes.pipeline import build_pipeline
from tile_core.passes.set_aside import with_spares, without_spares

if TYPE_CHECKING:
    from tvm import tirx

    from tile_core.jit.artifact import CompileRequest


@dataclass(frozen=True)
class Lowered:
    """A lowered program whose spare launches take their time.

    `main`: the program without them, a call in the place of each. `has_spares`: whether there are any. `whole`: lowers
    them, and returns the program with them and the facts for `JITKernel.report()`; raises as `lower`.
    """

    main: tirx.PrimFunc
    has_spares: bool
    whole: Callable[[], tuple[tirx.PrimFunc, Mapping[str, Any]]]


def lower(
    program: tirx.PrimFunc,
    request: CompileRequest,
    backend: Any,
    observers: Iterable[tuple[Observer, Observer]] = (),
) -> tuple[tirx.PrimFunc, Mapping[str, Any]]:
    """Run the backend's pipeline over `program`.

    `backend` is the manifest; an observer is a pair of callbacks `(pass name, function)` called before and after
    every pass.

    Returns the lowered function and the facts that the passes left for `JITKernel.report()`, JSON values only.

    Raises:
        TileError: the program is refused; the error names buffer, loop and line.
        PassFailedError: a pass or an observer raised anything else.
    """
    run = _Run(request, backend, observers)
    return run.passes(program, run.pipeline), run.context.report


def lower_spares_last(program: tirx.PrimFunc, request: CompileRequest, backend: Any) -> Lowered:
    """As `lower`, the spare launches after everything else, when they are asked for.

    Observers see a pass twice where there are spares: of the program without them, and of them.
    """
    run = _Run(request, backend)
    aside: list[tuple[tirx.PrimFunc, Pipeline]] = []
    for position, step in enumerate(run.pipeline, start=1):
        program, spares = without_spares(run.passes(program, (step,)), step.name)
        aside += [] if spares is None else [(spares, run.pipeline[position:])]

    def whole() -> tuple[tirx.PrimFunc, Mapping[str, Any]]:
        result = program
        for spares, rest in aside:
            result = with_spares(result, run.passes(spares, rest))
        return result, run.context.report

    return Lowered(program, bool(aside), whole)


class _Run:
    """The pipeline of a backend, and the one context of all that passes it."""

    def __init__(
        self, request: CompileRequest, backend: Any, observers: Iterable[tuple[Observer, Observer]] = ()
    ) -> None:
        from tile_core.plugins.manager import resolve

        self.context = PassContext(
            target=request.target,
            capabilities=resolve(backend.capabilities)(request.target),
            backend=backend,
            options=MappingProxyType(dict(request.pass_configs)),
        )
        self.pipeline = build_pipeline(backend, request.target)
        self._observers = (*observers, *default_observers(request.target))

    def passes(self, program: tirx.PrimFunc, pipeline: Pipeline) -> tirx.PrimFunc:
        """`program` after `pipeline`."""
        running = ""

        def before(name: str, func: tirx.PrimFunc) -> None:
            nonlocal running
            running = name
            _notify((pair[0] for pair in self._observers), name, func)

        def after(name: str, func: tirx.PrimFunc) -> None:
            _notify((pair[1] for pair in self._observers), name, func)

        try:
            return run_pipeline(program, pipeline, self.context, before, after)
        except TileError:
            raise
        except Exception as error:
            raise PassFailedError(
                f"the pass {running} failed: {_first_line(error)}",
                remedy="report it with the kernel; TILE_DEBUG=3 shows the program after every pass",
            ) from error


def _first_line(error: Exception) -> str:
    return next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)


def _notify(observers: Iterable[Observer], name: str, func: tirx.PrimFunc) -> None:
    for observer in observers:
        observer(name, func)
