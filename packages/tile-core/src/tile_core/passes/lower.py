"""One call from a traced program to a lowered one, for every backend's compiler."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

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
    """
    from tile_core.plugins.manager import resolve

    context = PassContext(
        target=request.target,
        capabilities=resolve(backend.capabilities)(request.target),
        backend=backend,
        options=MappingProxyType(dict(request.pass_configs)),
    )
    pairs = (*observers, *default_observers(request.target))
    lowered = run_pipeline(
        program,
        build_pipeline(backend, request.target),
        context,
        before=lambda name, func: _notify((pair[0] for pair in pairs), name, func),
        after=lambda name, func: _notify((pair[1] for pair in pairs), name, func),
    )
    return lowered, context.report


def _notify(observers: Iterable[Observer], name: str, func: tirx.PrimFunc) -> None:
    for observer in observers:
        observer(name, func)
