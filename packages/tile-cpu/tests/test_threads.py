"""Which threads run the blocks of a kernel, and what a call asks of the process."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="threads are counted in /proc")

PROLOGUE = '''
import os, sys, time
import numpy as np
import tile_core as tl
import tile_core.language as T

BLOCKS = 64

@T.prim_func
def who(A: T.Tensor((BLOCKS, 4096), "float32"), Tid: T.Tensor((BLOCKS,), "int32")):
    with T.Kernel(BLOCKS) as bx:
        for _ in T.serial(20):
            for i in T.Parallel(4096):
                A[bx, i] = T.sin(A[bx, i] + 1.0)
        Tid[bx] = T.call_extern("int32", "gettid")

def threads():
    return {int(name) for name in os.listdir("/proc/self/task")}

def workers(calls=30, enough=None):
    """The threads that ran a block, in all calls and at most in one.

    Which threads take part is chance: calls go on until `enough` of them did, for a minute.
    """
    seen, most = set(), 0
    start = time.monotonic()
    while calls > 0 or (enough is not None and len(seen) < enough and time.monotonic() < start + 60):
        a, tid = np.zeros((BLOCKS, 4096), np.float32), np.zeros(BLOCKS, np.int32)
        kernel(a, tid)
        here = set(tid.tolist())
        seen, most, calls = seen | here, max(most, len(here)), calls - 1
    return seen, most
'''


def run(tmp_path: Path, code: str, **environment: str) -> str:
    """The output of a program in a process of its own; kernels need their source in a file."""
    path = tmp_path / "program.py"
    path.write_text(PROLOGUE + textwrap.dedent(code), encoding="utf-8")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("TVM_", "OMP_", "TILE_NUM"))}
    done = subprocess.run(
        [sys.executable, str(path)],
        env={**kept, **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_beside_torch_its_own_workers_run_blocks(tmp_path: Path) -> None:
    code = """
        import torch
        torch.set_num_threads(3)
        for _ in range(20):
            torch.ones(1 << 22).add_(1).sum()
        kernel = tl.compile(who, target="cpu")
        kernel(np.zeros((BLOCKS, 4096), np.float32), np.zeros(BLOCKS, np.int32))
        before = threads()
        used, most = workers(enough=2)
        assert used <= before, (used, before)
        assert threads() <= before, "a pool of its own was started"
        assert len(used) > 1 and most <= 3, used
    """
    run(tmp_path, code)


def test_torch_says_how_many_and_may_change_its_mind(tmp_path: Path) -> None:
    code = """
        import torch
        kernel = tl.compile(who, target="cpu")
        for count in (1, 2, 4, 1):
            torch.set_num_threads(count)
            assert workers()[1] <= count, count
        assert workers() == ({os.getpid()}, 1)
    """
    run(tmp_path, code)


@pytest.mark.parametrize("count", ["1", "3", "64"])
@pytest.mark.parametrize("torch", ["import torch; torch.set_num_threads(2)", "sys.modules['torch'] = None"])
def test_the_setting_bounds_them_whichever_pool_it_is(tmp_path: Path, torch: str, count: str) -> None:
    """More than there are cores is no mistake."""
    code = f"""
        {torch}
        kernel = tl.compile(who, target="cpu")
        seen, most = workers(10)
        assert most <= {count}, seen
        assert {count} > 1 or seen == {{os.getpid()}}
    """
    run(tmp_path, code, TILE_NUM_THREADS=count)


def test_without_torch_every_core_takes_part_and_none_is_pinned(tmp_path: Path) -> None:
    code = """
        sys.modules["torch"] = None  # as where it is not installed
        allowed = os.sched_getaffinity(0)
        kernel = tl.compile(who, target="cpu")
        used, most = workers(enough=min(2, len(allowed)))
        assert len(used) <= os.cpu_count()
        assert len(allowed) == 1 or len(used) > 1, used
        for thread in threads():
            assert os.sched_getaffinity(thread) == allowed, thread
    """
    run(tmp_path, code)


def test_threads_of_python_beside_a_fork(tmp_path: Path) -> None:
    """A child of a process whose pool is at work computes on its own thread, again and again."""
    code = """
        import signal, threading
        import torch
        kernel = tl.compile(who, target="cpu")
        workers(5)
        stop = threading.Event()
        def busy():
            while not stop.is_set():
                workers(1)
        beside = [threading.Thread(target=busy) for _ in range(2)]
        for thread in beside:
            thread.start()
        for _ in range(5):
            child = os.fork()
            if child == 0:
                signal.alarm(30)
                os._exit(0 if workers(3) == ({os.getpid()}, 1) else 1)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        stop.set()
        for thread in beside:
            thread.join(60)
            assert not thread.is_alive()
        assert workers(3)[0]
    """
    run(tmp_path, code)


DEBUG_MALLOC = next(iter(Path("/lib").glob("*-linux-gnu/libc_malloc_debug.so.0")), None)

HANDED_OVER = 2
"""Small objects for each tensor: torch's and TVM's, by which the one hands it to the other (DLPack)."""


@pytest.mark.skipif(DEBUG_MALLOC is None, reason="this C library has no mtrace")
def test_a_call_allocates_no_memory_for_tiles(tmp_path: Path) -> None:
    """The C library writes down every allocation between `mtrace` and `muntrace`: those of the calls are missing."""
    code = """
        import ctypes
        import torch

        @T.prim_func
        def tiles(A: T.Tensor((64, 8192), "float32")):
            with T.Kernel(64) as bx:
                large = T.alloc_shared((8192,), "float32")
                small = T.alloc_fragment((64,), "float32")
                T.copy(A[bx, 0], large)
                T.fill(small, 1.0)
                for i in T.Parallel(8192):
                    A[bx, i] = large[8191 - i] + small[i % 64]

        libc = ctypes.CDLL(None)
        libc.dlvsym.restype, libc.dlvsym.argtypes = ctypes.c_void_p, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p)
        debug = ctypes.CDLL("libc_malloc_debug.so.0")
        begin, end = (
            ctypes.CFUNCTYPE(None)(libc.dlvsym(debug._handle, name, b"GLIBC_2.2.5"))
            for name in (b"mtrace", b"muntrace")
        )
        kernel = tl.compile(tiles, target="cpu")
        assert {tile["place"] for tile in kernel.report()["tiles"]} == {"stack", "workspace"}
        a = torch.zeros(64, 8192)

        def allocations(calls, beside):
            begin()
            for _ in range(calls):
                kernel(a)
            kept = [bytes(100_000) for _ in range(beside)]
            end()
            with open(os.environ["MALLOC_TRACE"]) as log:
                sizes = [int(line.split()[-1], 16) for line in log if " + " in line]
            open(os.environ["MALLOC_TRACE"], "w").close()
            return len(sizes), max(sizes, default=0)

        for _ in range(200):
            kernel(a)
        print(*allocations(0, 0), *allocations(200, 0), *allocations(0, 50))
    """
    assert DEBUG_MALLOC is not None
    log = tmp_path / "allocations"
    printed = run(tmp_path, code, LD_PRELOAD=str(DEBUG_MALLOC), MALLOC_TRACE=str(log), TILE_CACHE="0")
    around, _, found, largest, beside, size = map(int, printed.split())
    assert beside >= 50 and size >= 100_000, "the log does not show allocations"
    assert found <= around + 200 * HANDED_OVER, f"{found} allocations in 200 calls"
    assert largest <= 128, largest
