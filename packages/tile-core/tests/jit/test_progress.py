"""The progress line: on a terminal, after a while, and gone at the end."""

from __future__ import annotations

import io
import sys
import time

import pytest

from tile_core.jit.progress import progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


def run(monkeypatch, stream, seconds):
    monkeypatch.setattr(sys, "stderr", stream)
    with progress("tile: compiling gemm"):
        time.sleep(seconds)
    return stream.getvalue()


def test_a_long_compile_shows_a_line_and_erases_it(monkeypatch):
    text = run(monkeypatch, Terminal(), 0.75)
    assert "tile: compiling gemm 0.3 s" in text
    assert text.endswith("\r\x1b[2K")
    assert "\n" not in text


def test_a_short_one_shows_nothing(monkeypatch):
    assert run(monkeypatch, Terminal(), 0.0) == ""


def test_what_is_no_terminal_gets_nothing(monkeypatch):
    assert run(monkeypatch, io.StringIO(), 0.5) == ""


def test_an_error_ends_the_line_too(monkeypatch):
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)

    def fail():
        with progress("x"):
            time.sleep(0.5)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert stream.getvalue().endswith("\r\x1b[2K")
