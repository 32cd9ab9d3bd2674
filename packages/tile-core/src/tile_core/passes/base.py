"""A pass is a frozen dataclass; the pipeline is a tuple of them. Nothing here knows a backend."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol, runtime_checkable

from tvm import tirx


@dataclass(frozen=True)
class PassContext:
    """What passes may ask and where they leave facts.

    `report` holds what `JITKernel.report()` shows, JSON values only. `state` is what a pass decides for a later one and
    the IR has no place for, under the deciding pass's name.
    """

    target: Any
    capabilities: Any
    backend: Any
    options: Mapping[str, Any] = field(default_factory=dict)
    report: dict[str, Any] = field(default_factory=dict)
    state: dict[str, Any] = field(default_factory=dict)


@runtime_checkable
class Pass(Protocol):
    """`name` is the pass's name in the pipeline, equal to its module's name.

    A pass that reads `context.options` names what it reads in a class variable `options: ClassVar[tuple[str, ...]]`;
    names that neither a pass nor a manifest declares are refused.
    """

    name: ClassVar[str]

    def __call__(self, func: tirx.PrimFunc, context: PassContext) -> tirx.PrimFunc:
        """The program after the pass."""
        ...


Observer = Callable[[str, tirx.PrimFunc], None]


def run_pipeline(
    func: tirx.PrimFunc,
    pipeline: tuple[Pass, ...],
    context: PassContext,
    before: Observer = lambda name, func: None,
    after: Observer = lambda name, func: None,
) -> tirx.PrimFunc:
    """Run every pass in order, with one callback around each."""
    for step in pipeline:
        before(step.name, func)
        func = step(func, context)
        after(step.name, func)
    return func


Pipeline = tuple[Pass, ...]


class Edit(Protocol):
    """A change to a pipeline."""

    def apply(self, pipeline: Pipeline) -> Pipeline:
        """The changed pipeline."""
        ...
