"""`examples/vector_add.py`: every formulation is right, and the page about it shows the code that is printed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tile_core.testing.scripts import load_script

REPOSITORY = Path(__file__).resolve().parents[3]
example: Any = load_script(REPOSITORY / "examples" / "vector_add.py")


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILE_CACHE_DIR", str(tmp_path))


@pytest.mark.emulate
def test_every_formulation_is_right_at_and_beside_an_aligned_length() -> None:
    example.check(4096, "cuda", "emulate", "cpu")


@pytest.mark.emulate
def test_the_page_shows_what_is_printed() -> None:
    page = (REPOSITORY / "docs" / "vector_add.md").read_text()
    shown = re.findall(r"```cpp\n(.*?)\n```", page, re.DOTALL)
    assert shown == [example.code_of("plain", 1 << 14), example.code_of("plain", (1 << 14) + 1)]
