"""Python's garbage collector while a kernel is compiled.

Lowering makes tens of thousands of small objects, so the collector of cycles runs, and once in a while it looks at
every object there is. With torch and TVM imported those are a million that have nothing to do with the kernel: one
such look takes as long as half of the passes. So what exists when a compilation begins is set aside until it ends;
what the compilation makes is collected as ever.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager


class _Aside:
    """Compilations under way, on any thread; the first sets aside and the last takes back."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._compilations = 0
        self._is_ours = False

    def begin(self) -> None:
        with self._lock:
            if self._compilations == 0:
                self._is_ours = gc.get_freeze_count() == 0
                if self._is_ours:
                    gc.freeze()
            self._compilations += 1

    def end(self) -> None:
        with self._lock:
            self._compilations -= 1
            if self._compilations == 0 and self._is_ours:
                gc.unfreeze()


_aside = _Aside()


@contextmanager
def older_objects_set_aside() -> Iterator[None]:
    """The collector does not look at what exists now, until the last work of this kind that is under way has ended.

    Nothing happens in a program that has set objects aside itself (`gc.freeze`): they could not be told apart.

    >>> with older_objects_set_aside():
    ...     gc.get_freeze_count() > 0
    True
    """
    _aside.begin()
    try:
        yield
    finally:
        _aside.end()
