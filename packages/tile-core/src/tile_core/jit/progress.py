"""A line on stderr while a compile takes long, erased when it ends. Nothing where stderr is not a terminal."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

_PATIENCE_S = 0.3
_INTERVAL_S = 0.2


@contextmanager
def progress(text: str) -> Iterator[None]:
    """Show `text` and the seconds gone by, from 0.3 s after the start of the block until its end."""
    if not sys.stderr.isatty():
        yield
        return
    done = threading.Event()
    line = threading.Thread(target=_show, args=(text, done), name="tile-progress", daemon=True)
    line.start()
    try:
        yield
    finally:
        done.set()
        line.join()


def _show(text: str, done: threading.Event) -> None:
    start = time.perf_counter()
    shown = False
    while not done.wait(_INTERVAL_S if shown else _PATIENCE_S):
        shown = True
        sys.stderr.write(f"\r\x1b[2K{text} {time.perf_counter() - start:.1f} s")
        sys.stderr.flush()
    if shown:
        sys.stderr.write("\r\x1b[2K")
        sys.stderr.flush()
