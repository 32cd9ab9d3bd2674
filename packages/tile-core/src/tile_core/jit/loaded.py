"""What runs a compiled kernel in this process, or says why it cannot run here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from tile_core.errors.base import TileError
from tile_core.jit.artifact import Artifact


class Refusal:
    """What stands for the entry of a kernel that cannot run on this machine: calling it raises the error."""

    def __init__(self, error: TileError) -> None:
        self._error = error

    def __call__(self, *arguments: Any, **keywords: Any) -> NoReturn:
        """Refuse, whatever the arguments are."""
        raise type(self._error)(self._error.message, remedy=self._error.remedy)


class Loaded:
    """A compiled kernel that is alive in this process. Every `JITKernel` with its key shares it."""

    __slots__ = ("__weakref__", "artifact", "run")

    def __init__(self, artifact: Artifact, run: Callable[..., Any]) -> None:
        self.artifact = artifact
        self.run = run
