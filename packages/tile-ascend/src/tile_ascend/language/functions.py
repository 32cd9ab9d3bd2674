"""Vector functions that the author marks.

What threads do is a SIMT function whether it is marked or not, and the compiler decides where functions begin and end.
So the mark says how many threads there are, which is one number a launch.
"""

from __future__ import annotations

from types import TracebackType
from typing import Any, Self

from tile_core.errors import CodeGenerationUnimplementedError
from tile_core.errors.frontend import KernelNestingError
from tile_core.errors.ops import OpArgumentError
from tile_core.frontend.values import Var
from tile_core.language.kernel import KernelLaunchFrame, open_kernel, thread_counts

__all__ = ["SimtVF", "SimtVFFrame"]

_open: list[KernelLaunchFrame] = []
"""The launches in which a function is open: at most one, of the function being traced."""


class SimtVFFrame:
    """An open SIMT function, a context manager; made by `T.SimtVF`."""

    tile_opened_by = "with"

    def __init__(self, threads: tuple[int, int, int]) -> None:
        self._threads = threads
        self._kernel: KernelLaunchFrame | None = None

    def __str__(self) -> str:
        return "T.SimtVF"

    @property
    def thread_extents(self) -> list[int]:
        """The threads along the three axes."""
        return list(self._threads)

    @property
    def thread_vars(self) -> list[Var]:
        """The three thread indices, inside of the function."""
        return [] if self._kernel is None else list(self._kernel.thread_vars)

    def __enter__(self) -> Self:
        kernel = open_kernel()
        if kernel in _open:
            raise KernelNestingError("T.SimtVF inside of T.SimtVF", remedy="close the first function before the second")
        if kernel.threads_given and kernel.thread_extents != self._threads:
            raise CodeGenerationUnimplementedError(
                f"T.SimtVF of {self._threads} threads in a launch whose functions have {kernel.thread_extents}",
                remedy="give all functions of a launch the same threads",
            )
        kernel.thread_extents, kernel.threads_given = self._threads, True
        self._kernel = kernel
        _open.append(kernel)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._kernel is not None
        _open.remove(self._kernel)
        self._kernel = None


def SimtVF(threads: Any = 128, latency: int = 0) -> SimtVFFrame:
    """The body is what threads do, a SIMT function of `threads` threads: an int, or up to three for the axes.

    All functions of a launch have the same threads. `latency` is a hint in cycles, 0 where it is not known; nothing
    depends on it.

    Raises:
        LaunchShapeError: `threads` are no counts, or more than a function has.
        OpArgumentError: a `latency` that is no int of at least 0.

    Example:
        with T.SimtVF(threads=256):
            for i in T.Parallel(1024):
                B[i] = A[i] + 1.0
    """
    if not isinstance(latency, int) or isinstance(latency, bool) or latency < 0:
        raise OpArgumentError(f"latency={latency!r}", remedy="give a number of cycles, 0 where it is not known")
    return SimtVFFrame(thread_counts(threads))
