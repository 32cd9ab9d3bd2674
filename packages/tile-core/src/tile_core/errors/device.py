"""Errors raised when host code launches a kernel."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from tile_core.errors.base import TileError

__all__ = ["DescriptorError", "KernelLaunchError"]


class _ExplainedError(TileError):
    """A refusal of compiled host code, for which the runtime that refused knows the reason."""

    explanations: ClassVar[list[Callable[[], str]]]
    advice: ClassVar[str]

    def __init__(self, message: str) -> None:
        reasons = (explain() for explain in self.explanations)
        reason = next((text for text in reasons if text), "")
        super().__init__(f"{message}: {reason}" if reason else message, remedy=self.advice)


class KernelLaunchError(_ExplainedError, RuntimeError):
    """A kernel could not be loaded or launched.

    The message names the kernel, its grid and block, the arguments, and the driver's or the emulator's reason. Usual
    ones: a grid with more blocks than the device takes, too little memory, or an error of an earlier kernel, which
    appears at the next launch because kernels run asynchronously.
    """

    code = "TILE-E0661"
    advice = "look at the grid and at earlier kernels, whose errors can appear here"
    explanations: ClassVar[list[Callable[[], str]]] = []
    """Asked in turn for the reason of the last failed launch; an empty text means that it was another's."""


class DescriptorError(_ExplainedError, ValueError):
    """The driver or the emulator refused to describe a tensor for the device's copy engine.

    The message names the kernel, the tensor, and its address, extents, strides and box. Base address and strides have
    to be multiples of what the engine moves at once; a kernel that checks this takes another way for such tensors.
    """

    code = "TILE-E0662"
    advice = "pass a tensor whose address and strides are multiples of 16 bytes, such as tensor.contiguous()"
    explanations: ClassVar[list[Callable[[], str]]] = []
    """As `KernelLaunchError.explanations`."""
