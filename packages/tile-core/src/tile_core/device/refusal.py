"""What a compiler says of a printed source that it refuses, put into words once for every backend."""

from __future__ import annotations

from typing import TypeVar

from tile_core.errors.base import TileError

Error = TypeVar("Error", bound=TileError)


def first_error(log: str) -> str:
    r"""The first line of a compiler's log that speaks of an error, or the whole log.

    >>> first_error("k.cu(1): warning\nk.cu(2): error: no such name\n1 error")
    'k.cu(2): error: no such name'
    """
    return next((line for line in log.splitlines() if "error" in line), log.strip())


def refusal(
    kind: type[Error], compiler: str, log: str, source: str, *, check: str = "prelude= and compile_flags="
) -> Error:
    """The backend's error `kind` for a source that `compiler` refused; `check` is what of the user's may be at fault.

    The log and the source are in its notes.

    >>> error = refusal(TileError, "A compiler", "2: error: no such name", "x = y;")
    >>> error.message, error.__notes__
    ('A compiler refused the printed kernel: 2: error: no such name', ['2: error: no such name', 'x = y;'])
    """
    error = kind(
        f"{compiler} refused the printed kernel: {first_error(log)}",
        remedy=f"log and source are in the notes of this error; check {check}",
    )
    error.add_note(log)
    error.add_note(source)
    return error
