"""The root of every error a user sees, and how it is rendered.

An error says what is wrong, where (file, line, caret) and what to do. One class has one code; the class's docstring is
its page in the documentation (`docs/errors.md` is generated from them), so a code is never reused for another meaning.
"""

from __future__ import annotations

import linecache
from dataclasses import dataclass
from typing import ClassVar, Literal


@dataclass(frozen=True)
class SourceSpan:
    """A place in the user's source: 1-based lines, 0-based columns, as in `ast`."""

    file: str
    line: int
    column: int
    end_line: int
    end_column: int

    def render(self) -> str:
        """The source line with a caret under the span, or only `file:line` where the source is gone."""
        head = f"  --> {self.file}:{self.line}:{self.column + 1}"
        text = linecache.getline(self.file, self.line).rstrip("\n")
        if not text.strip():
            return head
        end = self.end_column if self.end_line == self.line else len(text)
        # ast columns count UTF-8 bytes; the caret must stand under characters.
        raw = text.encode()
        start_char = len(raw[: self.column].decode(errors="replace"))
        end_char = max(start_char + 1, len(raw[:end].decode(errors="replace")))
        number = str(self.line)
        gutter = " " * len(number)
        caret = " " * start_char + "^" * (end_char - start_char)
        return f"{head}\n {gutter} |\n {number} | {text}\n {gutter} | {caret}"


class TileError(Exception):
    """Base of every error raised on purpose.

    `code` is stable. `kind` tells an invalid program from something the hardware cannot do and from something that is
    not implemented yet.
    """

    code: ClassVar[str] = "TILE-E0000"
    kind: ClassVar[Literal["invalid", "unsupported", "unimplemented", "environment"]] = "invalid"

    def __init__(self, message: str, *, remedy: str = "", span: SourceSpan | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy
        self.span = span

    def __str__(self) -> str:
        parts = [f"{self.code}: {self.message}"]
        if self.span is not None:
            parts.append(self.span.render())
        if self.remedy:
            parts.append(f"  help: {self.remedy}")
        return "\n".join(parts)
