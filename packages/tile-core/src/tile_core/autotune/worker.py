"""The process in which candidates are measured: `python -m tile_core.autotune.worker READ WRITE BACKEND`.

It gets jobs over one pipe and answers over another; stdout stays free for what kernels print. It ends when its parent
does, because the pipe closes.
"""

from __future__ import annotations

import pickle
import sys
from dataclasses import replace
from multiprocessing.connection import Connection
from typing import Any

from tile_core.autotune.job import Job, Outcome, perform
from tile_core.jit.artifact import Artifact, CompileRequest
from tile_core.plugins.manager import backend, resolve
from tile_core.targets.target import Target

READY = b"ready"


def describe(error: BaseException) -> str:
    """An exception in one text, with its class where it does not have a code."""
    from tile_core.errors.base import TileError

    return str(error) if isinstance(error, TileError) else f"{type(error).__name__}: {error}"


def load(job: Job) -> Any:
    """What runs the kernel of `job`."""
    kind, name, options = job.target
    request = CompileRequest(
        Target(kind, name, options), execution="emulate" if job.execution == "emulate" else "native"
    )
    return resolve(backend(name).runtime)(Artifact(job.files, report=job.report), request)


def placed(value: Any, device: str) -> Any:
    """A tensor moved to `device`; anything else itself."""
    return value.to(device) if hasattr(value, "device") and hasattr(value, "to") else value


def work(job: Job) -> Outcome:
    """Do one job; failures become its outcome."""
    try:
        job = replace(job, parameters=[placed(value, job.device) for value in job.parameters])
        done = perform(job, load(job))
        return replace(done, results=[placed(value, "cpu") for value in done.results])
    except Exception as error:  # noqa: BLE001 - whatever a candidate does, the next one is measured
        return Outcome(error=describe(error))


def main(read: int, write: int, name: str) -> None:
    """Serve until the pipe closes. What the backend called `name` needs is loaded first: no job waits for it."""
    import torch  # noqa: F401

    resolve(backend(name).runtime)
    inbox, outbox = Connection(read, writable=False), Connection(write, readable=False)
    outbox.send_bytes(READY)
    while True:
        try:
            job = inbox.recv_bytes()
        except EOFError:
            return
        # Both ends are this program: nothing else can write to the pipe.
        outbox.send_bytes(pickle.dumps(work(pickle.loads(job))))  # noqa: S301


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
