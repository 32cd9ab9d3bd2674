"""Regions of different thread groups at the same time.

Each runs in a thread of the host until it waits for something that is not there yet, then the next one does; only one
runs at a time, in a fixed order, so a run is deterministic. Where all wait, none will ever go on.
"""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable, Sequence

from tile_core.errors.base import SourceSpan
from tile_core.errors.interpreter import BarrierMisuseError

REMEDY = "check arrivals, announced bytes and parities: a phase ends when all arrivals and bytes are there"


class _Cancelled(BaseException):
    """Ends the thread of a region when another one has failed."""


class _Member:
    """One region and its thread."""

    def __init__(self, crew: Crew, body: Callable[[Crew], None]) -> None:
        self.turn = threading.Semaphore(0)
        self.is_done = False
        self.error: BaseException | None = None
        self.wanted: Callable[[], bool] | None = None
        self.waits_for = ""
        self.span: SourceSpan | None = None
        context = contextvars.copy_context()
        self._thread = threading.Thread(target=lambda: context.run(self._run, crew, body), daemon=True)
        self._thread.start()

    def _run(self, crew: Crew, body: Callable[[Crew], None]) -> None:
        self.turn.acquire()
        try:
            if not crew.is_cancelled:
                body(crew)
        except _Cancelled:
            pass
        except BaseException as error:  # noqa: BLE001 - it goes on in the thread that runs the crew
            self.error = error
        self.is_done = True
        crew.back.release()

    def can_go_on(self) -> bool:
        return not self.is_done and (self.wanted is None or self.wanted())


class Crew:
    """Members that take turns."""

    def __init__(self, bodies: Sequence[Callable[[Crew], None]]) -> None:
        self.back = threading.Semaphore(0)
        self.is_cancelled = False
        self._running: _Member | None = None
        self._members = [_Member(self, body) for body in bodies]

    def run(self) -> None:
        """Let the members run until all have ended.

        Raises:
            BarrierMisuseError: all that have not ended wait. Whatever a member raises.
        """
        while not all(member.is_done for member in self._members):
            ready = [member for member in self._members if member.can_go_on()]
            if not ready:
                self._fail(_deadlock([member for member in self._members if not member.is_done]))
            for member in ready:
                self._give_turn(member)
                if member.error is not None:
                    self._fail(member.error)

    def wait(self, wanted: Callable[[], bool], what: str, span: SourceSpan | None) -> None:
        """The running member stops until `wanted` holds; `what` it is, for messages."""
        member = self._running
        assert member is not None
        member.wanted, member.waits_for, member.span = wanted, what, span
        while not wanted():
            self.back.release()
            member.turn.acquire()
            if self.is_cancelled:
                raise _Cancelled
        member.wanted = None

    def _give_turn(self, member: _Member) -> None:
        self._running = member
        member.turn.release()
        self.back.acquire()

    def _fail(self, error: BaseException) -> None:
        self.is_cancelled = True
        for member in self._members:
            if not member.is_done:
                self._give_turn(member)
        raise error


def _deadlock(waiting: Sequence[_Member]) -> BarrierMisuseError:
    listed = "; ".join(member.waits_for for member in waiting)
    return BarrierMisuseError(f"every group of threads waits: {listed}", remedy=REMEDY, span=waiting[0].span)
