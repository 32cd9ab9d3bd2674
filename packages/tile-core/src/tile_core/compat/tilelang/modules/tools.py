"""`tilelang.tools`: pictures of layouts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tile_core.layouts import plot_layout as _plot

__all__ = ["plot_layout"]


def plot_layout(
    layout: Any,
    save_directory: str | Path = "./tmp",
    name: str = "layout",
    colormap: str | None = None,
    verbose: bool = False,
    formats: str | Sequence[str] = "pdf",
    view: str = "input",
    grid_shape: tuple[int, int] | None = None,
) -> None:
    """Draw a layout into `save_directory/name.<format>` for each format. Colours and views are always the same.

    Raises:
        PlottingUnavailableError: matplotlib is not installed.
    """
    del colormap, view, grid_shape
    folder = Path(save_directory)
    folder.mkdir(parents=True, exist_ok=True)
    for suffix in formats.split(",") if isinstance(formats, str) else formats:
        text = _plot(layout, folder / f"{name}.{suffix.strip()}")
        if verbose:
            print(text)  # noqa: T201 - what `verbose` asks for
