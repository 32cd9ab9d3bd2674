"""Where a candidate is measured so that it can be stopped.

Machine code cannot be interrupted from within its process, so candidates run in another one, which is killed when the
time is over. A new process and not a fork: a fork would inherit locks of thread pools and a device context that cannot
be used after it. Starting one costs seconds, so it serves one candidate after another until one has to be stopped.

Kernels that live in this process only, like interpreted ones, run in a thread: they are Python, and Python can be
interrupted.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Any, Self

from tile_core.autotune.job import Job, Outcome, perform
from tile_core.autotune.worker import READY, describe
from tile_core.errors.autotune import AutotuneFailedError

_START_SECONDS = 180.0


class Sandbox:
    """A process for one job at a time, started when it is first needed. Leaving the `with` block ends it."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._inbox: Connection | None = None
        self._outbox: Connection | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    def run(self, job: Job, timeout: float) -> Outcome:
        """Do `job`; after `timeout` seconds its process is ended, and the outcome says so.

        Raises:
            AutotuneFailedError: no process could be started.
        """
        inbox, outbox = self._start(job.target[1])
        ends = time.monotonic() + timeout
        try:
            outbox.send_bytes(pickle.dumps(job))
            if inbox.poll(max(0.0, ends - time.monotonic())):
                outcome: Outcome = pickle.loads(inbox.recv_bytes())  # noqa: S301 - written by our own process
                return outcome
        except (EOFError, BrokenPipeError, ConnectionResetError):
            return Outcome(error=f"the candidate ended its process ({self.stop()})")
        self.stop()
        return Outcome(error=f"the candidate was stopped after {timeout:g} s")

    def _start(self, backend: str) -> tuple[Connection, Connection]:
        if self._inbox is not None and self._outbox is not None:
            return self._inbox, self._outbox
        their_inbox, our_outbox = os.pipe()
        our_inbox, their_outbox = os.pipe()
        path = os.pathsep.join(entry for entry in sys.path if entry)
        self._process = subprocess.Popen(  # noqa: S603 - this interpreter and our own module
            [sys.executable, "-P", "-m", "tile_core.autotune.worker", str(their_inbox), str(their_outbox), backend],
            pass_fds=(their_inbox, their_outbox),
            stdin=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": path},
        )
        os.close(their_inbox)
        os.close(their_outbox)
        self._inbox = Connection(our_inbox, writable=False)
        self._outbox = Connection(our_outbox, readable=False)
        self._await_ready(self._inbox)
        return self._inbox, self._outbox

    def _await_ready(self, inbox: Connection) -> None:
        ready = b""
        with contextlib.suppress(EOFError):
            ready = inbox.recv_bytes() if inbox.poll(_START_SECONDS) else b""
        if ready != READY:
            raise AutotuneFailedError(
                f"the process that measures candidates did not start ({self.stop()})",
                remedy="the cause is attached; isolate=False measures in this process",
            )

    def stop(self) -> str:
        """End the process and wait until it is gone; how it ended, in words."""
        process, self._process = self._process, None
        for pipe in (self._inbox, self._outbox):
            if pipe is not None:
                pipe.close()
        self._inbox = self._outbox = None
        if process is None:
            return "not running"
        with contextlib.suppress(subprocess.TimeoutExpired):
            # One that has ended by itself tells why; one that hangs does not.
            return _ending(process.wait(0.2))
        process.kill()
        return _ending(process.wait())


def _ending(status: int) -> str:
    if status >= 0:
        return f"exit status {status}"
    try:
        return f"signal {signal.Signals(-status).name}"
    except ValueError:
        return f"signal {-status}"


class _Stopped(BaseException):
    """Raised in a candidate's thread when its time is over."""


def run_in_thread(job: Job, run: Callable[..., Any], timeout: float) -> Outcome:
    """Do `job` with `run`, which is Python: after `timeout` seconds it is interrupted at its next line."""
    outcomes: list[Outcome] = []

    def work() -> None:
        try:
            outcomes.append(perform(job, run))
        except _Stopped:
            outcomes.append(Outcome(error=f"the candidate was stopped after {timeout:g} s"))
        except Exception as error:  # noqa: BLE001 - whatever a candidate does, the next one is measured
            outcomes.append(Outcome(error=describe(error)))

    thread = threading.Thread(target=work, name="tile-autotune", daemon=True)
    thread.start()
    thread.join(timeout)
    while thread.is_alive():
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident or 0), ctypes.py_object(_Stopped))
        thread.join(0.1)
    return outcomes[0] if outcomes else Outcome(error=f"the candidate was stopped after {timeout:g} s")
