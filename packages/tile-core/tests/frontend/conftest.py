"""What the front-end tests share: running a program on the reference target, and looking at what was emitted."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import contextmanager
from typing import Any

import pytest
from tvm.tirx import stmt as S

import tile_core as tl
from tile_core.errors import SourceSpan, TileError
from tile_core.ir.launch import from_stmt, launches
from tile_core.ir.visit import statements


@pytest.fixture
def run() -> Callable[..., Any]:
    """Compile for the interpreter and call with every parameter."""

    def call(func: Any, *arguments: Any) -> None:
        tl.compile(func, target="interpret")(*arguments)

    return call


@pytest.fixture
def body() -> Callable[[Any], list[Any]]:
    """The statements of a program's first kernel, flat, in program order."""

    def collect(func: Any) -> list[Any]:
        launch = from_stmt(next(launches(func.body)))
        return [stmt for stmt in statements(launch.body) if not isinstance(stmt, S.SeqStmt)]

    return collect


@pytest.fixture
def refused() -> Callable[..., Any]:
    """The block must raise the error, at a line of this file that contains `at`, with a message that has every word of
    `naming`."""

    @contextmanager
    def check(error: type[TileError], at: str = "", naming: tuple[str, ...] = ()) -> Any:
        with pytest.raises(error) as caught:
            yield caught
        raised = caught.value
        assert raised.span is not None, "no source span"
        assert at in source_line(raised.span), f"points at {source_line(raised.span)!r}"
        assert raised.remedy, "no remedy"
        for word in naming:
            assert word in str(raised), f"{word!r} is not in {raised}"

    return check


def source_line(span: SourceSpan) -> str:
    """The text of the line that a span points at."""
    import linecache

    return linecache.getline(span.file, span.line)
