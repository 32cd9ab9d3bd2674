"""What holds for every test of the repository: tiers, snippets in Markdown, and how properties are drawn."""

from __future__ import annotations

import linecache
import os

import pytest
from hypothesis import settings
from sybil import Example, Sybil
from sybil.parsers.markdown import CodeBlockParser, SkipParser

pytest_plugins = ["tile_core.testing.pytest_plugin"]
TIERS = ("null", "compile", "emulate", "device")

# The first example of a property compiles, the later ones hit caches: a deadline would measure that and nothing else.
settings.register_profile("tile", deadline=None, print_blob=True, derandomize=bool(os.environ.get("CI")))
settings.load_profile("tile")


def run_snippet(example: Example) -> None:
    """Run a Python block of a page. Its text is registered as a source, since kernels are traced from their source."""
    name = f"{example.path}:{example.line}"
    source = str(example.parsed)
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    exec(compile(source, name, "exec", dont_inherit=True), example.namespace)  # noqa: S102


pytest_collect_file = Sybil(
    parsers=[CodeBlockParser(language="python", evaluator=run_snippet), SkipParser()], patterns=["*.md"]
).pytest()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A test that names no tier needs nothing: it is of the tier `null`."""
    for item in items:
        if not any(item.get_closest_marker(tier) for tier in TIERS):
            item.add_marker(pytest.mark.null)
