"""The pipeline as data: one default tuple of passes and the edits by which a backend states its difference."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tile_core.errors.passes import PipelineEditError
from tile_core.passes.base import Edit, Pipeline

if TYPE_CHECKING:
    from tile_core.passes.base import Pass


@dataclass(frozen=True)
class _InsertBefore:
    anchor: str
    passes: Pipeline

    def apply(self, pipeline: Pipeline) -> Pipeline:
        at = _index(pipeline, self.anchor)
        return pipeline[:at] + self.passes + pipeline[at:]


@dataclass(frozen=True)
class _InsertAfter:
    anchor: str
    passes: Pipeline

    def apply(self, pipeline: Pipeline) -> Pipeline:
        at = _index(pipeline, self.anchor) + 1
        return pipeline[:at] + self.passes + pipeline[at:]


@dataclass(frozen=True)
class _Replace:
    name: str
    passes: Pipeline

    def apply(self, pipeline: Pipeline) -> Pipeline:
        at = _index(pipeline, self.name)
        return pipeline[:at] + self.passes + pipeline[at + 1 :]


def insert_before(anchor: str, *passes: Pass) -> Edit:
    """Put `passes` directly before the pass called `anchor`."""
    return _InsertBefore(anchor, passes)


def insert_after(anchor: str, *passes: Pass) -> Edit:
    """Put `passes` directly after the pass called `anchor`."""
    return _InsertAfter(anchor, passes)


def replace(name: str, *passes: Pass) -> Edit:
    """Put `passes` where the pass called `name` stands."""
    return _Replace(name, passes)


def drop(name: str) -> Edit:
    """Remove the pass called `name`."""
    return _Replace(name, ())


def apply_edits(pipeline: Pipeline, edits: Iterable[Edit]) -> Pipeline:
    """The pipeline after every edit, in order.

    Raises:
        PipelineEditError: an edit names a pass that is not there, or the result holds one name twice.

    >>> from tile_core.passes.pipeline import apply_edits, drop
    >>> [step.name for step in apply_edits(default_pipeline(None), [drop("simplify")])][:2]
    ['check_semantics', 'lower_tile_ops']
    """
    for edit in edits:
        pipeline = edit.apply(pipeline)
    names = [step.name for step in pipeline]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise PipelineEditError(
            f"the pipeline holds {', '.join(twice)} twice",
            remedy="use `replace` for a pass that is already there",
        )
    return pipeline


def default_pipeline(capabilities: Any) -> Pipeline:
    """The passes that every backend starts from, in order.

    `capabilities` are the target's facts; a pass that a target has no use for is left out by the fact, not by a name.
    """
    from tile_core.passes.check_semantics import CheckSemantics
    from tile_core.passes.define_shifts import DefineShifts
    from tile_core.passes.drop_annotations import DropAnnotations
    from tile_core.passes.legalize_bounds import LegalizeBounds
    from tile_core.passes.lower_scalar_ops import LowerScalarOps
    from tile_core.passes.lower_tile_ops import LowerTileOps
    from tile_core.passes.simplify import Simplify
    from tile_core.passes.unroll_loops import UnrollLoops
    from tile_core.passes.widen_indices import WidenIndices

    return (
        CheckSemantics(),
        LowerTileOps(),
        LowerScalarOps(),
        WidenIndices(),
        DefineShifts(),
        LegalizeBounds(),
        DropAnnotations(),
        UnrollLoops(),
        Simplify(),
    )


def build_pipeline(backend: Any, target: Any) -> Pipeline:
    """The pipeline of one backend for one target: the default, the backend's `pipeline_edits`, the plugins' edits."""
    from tile_core.plugins.manager import plugin_edits, resolve

    pipeline = default_pipeline(resolve(backend.capabilities)(target))
    if backend.pipeline_edits is not None:
        pipeline = apply_edits(pipeline, resolve(backend.pipeline_edits)(target))
    return apply_edits(pipeline, plugin_edits(target, pipeline))


def _index(pipeline: Pipeline, name: str) -> int:
    names = [step.name for step in pipeline]
    if name not in names:
        raise PipelineEditError(
            f"an edit names the pass {name!r}, which is not in the pipeline",
            remedy=f"the pipeline is {', '.join(names)}",
        )
    return names.index(name)
