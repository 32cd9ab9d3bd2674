"""One call from a traced program to a lowered one, for every backend's compiler."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from tile_core.errors.base import TileError
from tile_core.errors.passes import PassFailedError
from tile_core.passes.base import Observer, PassContext, run_pipeline
from tile_core.passes.observe import observers as default_observers
from tile_core.passes.pipeline import build_pipeline

if TYPE_CHECKING:
    from tvm import tirx

    from tile_core.jit.artifact import CompileRequest


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
    from tile_core.plugins.manager import resolve

    context = PassContext(
        target=request.target,
        capabilities=resolve(backend.capabilities)(request.target),
        backend=backend,
        options=MappingProxyType(dict(request.pass_configs)),
    )
    pairs = (*observers, *default_observers(request.target))
    pipeline = build_pipeline(backend, request.target)
    running = ""

    def before(name: str, func: tirx.PrimFunc) -> None:
        nonlocal running
        running = name
        _notify((pair[0] for pair in pairs), name, func)

    def after(name: str, func: tirx.PrimFunc) -> None:
        _notify((pair[1] for pair in pairs), name, func)

    try:
        return run_pipeline(program, pipeline, context, before, after), context.report
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
