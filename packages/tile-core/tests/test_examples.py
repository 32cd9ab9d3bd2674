"""The examples of `examples/language`: each runs, asserts what it shows, and draws its figure, on every target here.

The figures in the documentation are those that the examples draw.
"""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest

from tile_core.errors import CodeGenerationUnimplementedError
from tile_core.plugins.manager import backends

REPOSITORY = Path(__file__).resolve().parents[3]
EXAMPLES = REPOSITORY / "examples" / "language"
DOCS = REPOSITORY / "docs"
NAMES = sorted(path.stem for path in EXAMPLES.glob("*.py") if path.stem != "harness")
PNG = b"\x89PNG\r\n"

# A line that each example prints.
SAYS = {
    "control_flow_cost": "what is written",
    "dtype_families": "float8_e5m2fnuz       57344 7.62939e-06  255 of 256",
    "grid_and_index_model": "beyond the edge: 24 rows, 68 columns",
    "loops_and_mapping": "thread 0: (0, 0) (0, 1) (0, 16) (0, 17)",
    "python_boundary": "TILE-E0111",
    "scopes_and_footprint": "64 KiB = 512 bytes or 128 registers a thread",
}
NATIVE = ("interpret", "cpu")
OTHERS = sorted(backends().keys() - set(NATIVE))
# The interpreter lowers nothing, so that it has no vectors to draw.
UNDRAWN = {("control_flow_cost", "interpret")}


@pytest.fixture
def beside_the_examples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    monkeypatch.delitem(sys.modules, "harness", raising=False)


def test_there_are_six() -> None:
    assert set(SAYS) == set(NAMES)


@pytest.mark.usefixtures("beside_the_examples")
@pytest.mark.parametrize("target", NATIVE)
@pytest.mark.parametrize("name", SAYS)
def test_example(name: str, target: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main = runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name=name)["main"]
    main(["--target", target, "--figures", str(tmp_path)])
    assert SAYS[name] in capsys.readouterr().out
    drawn = list(tmp_path.iterdir())
    assert bool(drawn) != ((name, target) in UNDRAWN)
    assert all(path.read_bytes().startswith(PNG) and path.name.startswith(name) for path in drawn)


@pytest.mark.emulate
@pytest.mark.usefixtures("beside_the_examples")
@pytest.mark.parametrize("target", OTHERS)
@pytest.mark.parametrize("name", SAYS)
def test_example_in_the_emulator(
    name: str, target: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unchanged on every installed backend that generates code."""
    monkeypatch.setenv("TILE_EXECUTION", "emulate")
    main = runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name=name)["main"]
    try:
        main(["--target", target, "--figures", str(tmp_path)])
    except CodeGenerationUnimplementedError as error:
        pytest.skip(error.message)
    shown = capsys.readouterr().out
    # An example goes on where a target refuses a dtype, and says so.
    assert SAYS[name] in shown or f"refused on {target} (TILE-E" in shown


@pytest.mark.usefixtures("beside_the_examples")
def test_without_matplotlib_an_example_runs_and_says_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    main = runpy.run_path(str(EXAMPLES / "loops_and_mapping.py"), run_name="loops_and_mapping")["main"]
    main(["--target", "interpret", "--figures", str(tmp_path)])
    assert "python -m pip install matplotlib" in capsys.readouterr().out
    assert not list(tmp_path.iterdir())


def test_every_figure_of_the_pages_is_drawn_by_an_example() -> None:
    figures = {path.name for path in (DOCS / "figures").glob("*.png")}
    shown = {name for page in DOCS.rglob("*.md") for name in figures if f"figures/{name}" in page.read_text("utf-8")}
    assert figures
    assert shown == figures
    assert all(name.startswith(tuple(SAYS)) for name in figures)
