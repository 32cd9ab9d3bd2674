"""The process's limit on recursion is what it was when the last interpreter has ended, in whatever order they end."""

from __future__ import annotations

import contextlib
import sys

from tile_core.interpreter.program import MAX_DEPTH, deep_recursion


def test_interpreters_that_end_in_any_order() -> None:
    before = sys.getrecursionlimit()
    first, second = contextlib.ExitStack(), contextlib.ExitStack()
    first.enter_context(deep_recursion())
    second.enter_context(deep_recursion())
    first.close()
    assert sys.getrecursionlimit() == MAX_DEPTH
    second.close()
    assert sys.getrecursionlimit() == before
