"""Errors raised when host code launches a kernel."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from tile_core.errors.base import TileError

__all__ = ["KernelLaunchError"]


class KernelLaunchError(TileError, RuntimeError):
    """A kernel could not be loaded or launched.

    The message names the driver's or the emulator's reason. Usual ones: a grid with more blocks than the device takes,
    too little memory, or an error of an earlier kernel, which appears at the next launch because kernels run
    asynchronously.
    """

    code = "TILE-E0661"
    explanations: ClassVar[list[Callable[[], str]]] = []
    """Asked in turn for the reason of the last failed launch; an empty text means that it was another's."""

    def __init__(self, message: str) -> None:
        reasons = (explain() for explain in self.explanations)
        reason = next((text for text in reasons if text), "")
        super().__init__(f"{message}: {reason}" if reason else message)
