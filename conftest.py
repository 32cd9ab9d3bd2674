"""Tiers and snippets for the whole repository: see `markers` in pyproject.toml, and `nox -s docs`."""

from __future__ import annotations

import pytest
from sybil import Sybil
from sybil.parsers.markdown import PythonCodeBlockParser, SkipParser

TIERS = ("null", "compile", "emulate", "device")

pytest_collect_file = Sybil(parsers=[PythonCodeBlockParser(), SkipParser()], patterns=["*.md"]).pytest()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A test that names no tier needs nothing: it is of the tier `null`."""
    for item in items:
        if not any(item.get_closest_marker(tier) for tier in TIERS):
            item.add_marker(pytest.mark.null)
