"""What holds for every test of the repository: tiers, snippets in Markdown, and how properties are drawn."""

from __future__ import annotations

import os

import pytest
from hypothesis import settings
from sybil import Sybil
from sybil.parsers.markdown import PythonCodeBlockParser, SkipParser

TIERS = ("null", "compile", "emulate", "device")

# The first example of a property compiles, the later ones hit caches: a deadline would measure that and nothing else.
settings.register_profile("tile", deadline=None, print_blob=True, derandomize=bool(os.environ.get("CI")))
settings.load_profile("tile")

pytest_collect_file = Sybil(parsers=[PythonCodeBlockParser(), SkipParser()], patterns=["*.md"]).pytest()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A test that names no tier needs nothing: it is of the tier `null`."""
    for item in items:
        if not any(item.get_closest_marker(tier) for tier in TIERS):
            item.add_marker(pytest.mark.null)
