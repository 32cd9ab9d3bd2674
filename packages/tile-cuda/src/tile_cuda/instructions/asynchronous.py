"""The asynchronous instructions together, for the printer."""

from __future__ import annotations

from tile_cuda.instructions import calls, cp_async, mbarrier, tensor_map, threads, tma

SNIPPETS = {
    **calls.COMMON,
    **tensor_map.SNIPPETS,
    **mbarrier.SNIPPETS,
    **tma.SNIPPETS,
    **cp_async.SNIPPETS,
    **threads.SNIPPETS,
}
CALLS = {**mbarrier.CALLS, **tma.CALLS, **cp_async.CALLS, **threads.CALLS}
