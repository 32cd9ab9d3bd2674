"""The pipeline as data: the default, the edits, and their mistakes."""

from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import pytest

from tile_core.errors import PipelineEditError
from tile_core.passes.base import Pass, PassContext, run_pipeline
from tile_core.passes.pipeline import apply_edits, default_pipeline, drop, insert_after, insert_before, replace


@dataclass(frozen=True)
class Named:
    """A pass that notes that it ran."""

    name: str

    def __call__(self, func: Any, context: PassContext) -> Any:
        return [*func, self.name]


A, B, C, D = (Named(name) for name in "ABCD")


def test_edits_in_order() -> None:
    edits = [insert_before("A", C), insert_after("A", D), drop("B")]
    assert apply_edits((A, B), edits) == (C, A, D)
    assert apply_edits((A, B), [replace("A", C, D)]) == (C, D, B)
    assert apply_edits((A, B), [insert_after("B", C), drop("B"), insert_before("C", D)]) == (A, D, C)


@pytest.mark.parametrize("edit", [insert_before("X", C), insert_after("X", C), replace("X", C), drop("X")])
def test_an_edit_that_names_no_pass(edit: Any) -> None:
    with pytest.raises(PipelineEditError, match="'X', which is not in the pipeline") as caught:
        apply_edits((A, B), [edit])
    assert "A, B" in caught.value.remedy


def test_one_name_twice() -> None:
    with pytest.raises(PipelineEditError, match="holds A twice"):
        apply_edits((A, B), [insert_after("B", Named("A"))])


def test_passes_run_in_order_with_a_callback_around_each(context: PassContext) -> None:
    seen: list[tuple[str, str, int]] = []
    result = run_pipeline(
        [],
        (A, B),
        context,
        before=lambda name, func: seen.append(("before", name, len(func))),
        after=lambda name, func: seen.append(("after", name, len(func))),
    )
    assert result == ["A", "B"]
    assert seen == [("before", "A", 0), ("after", "A", 1), ("before", "B", 1), ("after", "B", 2)]


def test_every_default_pass_is_a_frozen_dataclass_named_like_its_module(
    context: PassContext, simt: PassContext
) -> None:
    for facts in (context.capabilities, simt.capabilities):
        for step in default_pipeline(facts):
            assert isinstance(step, Pass)
            assert is_dataclass(step)
            assert type(step).__module__.rpartition(".")[2] == step.name
            assert "name" not in {field.name for field in fields(step)}
            with pytest.raises(AttributeError):
                step.name = "other"
