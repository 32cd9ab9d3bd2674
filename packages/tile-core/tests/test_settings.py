"""Settings: sources of a value, what is accepted, scoped overrides, the part of the cache key."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from tile_core.errors import SettingError
from tile_core.settings import FLAG, CoreSettings, Setting, Settings, integer, settings


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", True),
        ("TRUE", True),
        ("on", True),
        (" yes ", True),
        ("0", False),
        ("False", False),
        ("off", False),
        ("", True),
    ],
)
def test_flags(monkeypatch: pytest.MonkeyPatch, text: str, value: bool) -> None:
    monkeypatch.setenv("TILE_CACHE", text)
    assert settings.cache is value


@pytest.mark.parametrize(
    ("variable", "text"),
    [
        ("TILE_CACHE", "2"),
        ("TILE_NUM_THREADS", "0"),
        ("TILE_NUM_THREADS", "-1"),
        ("TILE_NUM_THREADS", "two"),
        ("TILE_NUM_THREADS", "1.5"),
        ("TILE_NUM_THREADS", "٣"),
        ("TILE_DEBUG", "5"),
        ("TILE_DEBUG", "yes"),
        ("TILE_TARGET", "  "),
    ],
)
def test_a_wrong_value_names_variable_value_and_what_is_accepted(
    monkeypatch: pytest.MonkeyPatch, variable: str, text: str
) -> None:
    monkeypatch.setenv(variable, text)
    (setting,) = [one for one in settings.all() if one.variable == variable]
    with pytest.raises(SettingError) as caught:
        getattr(settings, setting.name)
    assert variable in caught.value.message
    assert repr(text) in caught.value.message
    assert setting.kind.accepted in caught.value.message
    assert isinstance(caught.value, ValueError)


def test_paths(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("TILE_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert settings.cache_dir == tmp_path / "tile"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert settings.cache_dir == Path("~/.cache/tile").expanduser()
    monkeypatch.setenv("TILE_CACHE_DIR", "~/kernels")
    assert settings.cache_dir == Path.home() / "kernels"


def test_override_is_scoped_nested_and_restored_after_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILE_DEBUG", "1")
    assert settings.source(CoreSettings.debug) == "environment"
    with settings.override(debug=2, num_threads=3):
        with settings.override(debug=4):
            assert (settings.debug, settings.num_threads) == (4, 3)
        assert settings.debug == 2
        assert settings.source(CoreSettings.debug) == "override"
        with settings.override(num_threads=None):
            assert settings.num_threads is None
    assert settings.debug == 1
    with pytest.raises(RuntimeError), settings.override(debug=3):
        raise RuntimeError
    assert settings.debug == 1
    assert settings.source(CoreSettings.target) == "default"


@pytest.mark.parametrize(
    "values", [{"debug": 9}, {"debug": True}, {"cache": 1}, {"cache_dir": "x"}, {"num_threads": 0}, {"bogus": 1}]
)
def test_overrides_are_checked(values: dict[str, Any]) -> None:
    with pytest.raises(SettingError), settings.override(**values):
        pass


def test_an_override_stays_in_its_thread() -> None:
    seen: list[int] = []
    with settings.override(debug=3):
        worker = threading.Thread(target=lambda: seen.append(settings.debug))
        worker.start()
        worker.join()
    assert seen == [0]


def test_assignment_says_what_to_do() -> None:
    with pytest.raises(AttributeError, match=r"settings\.override"):
        settings.debug = 1  # type: ignore[assignment]


def test_a_backend_has_a_group_of_its_own_and_code_key_holds_what_changes_code(monkeypatch: pytest.MonkeyPatch) -> None:
    class ToySettings(Settings):
        level = Setting("TILE_TOY_LEVEL", integer(0, 3), 2, "The level.", changes_code=True)
        loud = Setting("TILE_TOY_LOUD", FLAG, False, "Whether it is loud.")

    toy = ToySettings()
    assert toy.code_key() == {"TILE_TOY_LEVEL": 2}
    monkeypatch.setenv("TILE_TOY_LEVEL", "3")
    assert toy.code_key() == {"TILE_TOY_LEVEL": 3}
    with toy.override(level=1):
        assert toy.code_key() == {"TILE_TOY_LEVEL": 1}
    assert [row.variable for row in toy.table()] == ["TILE_TOY_LEVEL", "TILE_TOY_LOUD"]


def test_the_table_has_every_variable_once_and_documented() -> None:
    rows = settings.table()
    assert len({row.variable for row in rows}) == len(rows) >= 6
    assert all(row.variable.startswith("TILE_") and row.doc.endswith(".") and row.accepted for row in rows)
