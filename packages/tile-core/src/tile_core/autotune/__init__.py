"""The autotuner: measure several configurations of a kernel, keep the fastest one that is right.

    @tl.autotune(configs=[{"block": 64}, {"block": 256}], ref_prog=torch.add)
    @tl.jit(out_idx=-1)
    def add(n, block): ...

    kernel = add(4096)          # tunes on the first call with these arguments
    kernel.config, kernel.latency

Candidates are compiled in parallel, then measured one after another in a process of their own. That process can be
ended: a candidate that hangs or crashes costs its own result and nothing else, and none is still running while the next
one is measured.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tile_core.autotune.decorator import TunedFunction as TunedFunction
    from tile_core.autotune.decorator import autotune as autotune
    from tile_core.autotune.inputs import get_autotune_inputs as get_autotune_inputs
    from tile_core.autotune.inputs import set_autotune_inputs as set_autotune_inputs
    from tile_core.autotune.profile import Profile as Profile
    from tile_core.autotune.tuner import AutoTuner as AutoTuner
    from tile_core.autotune.tuner import AutotuneResult as AutotuneResult
    from tile_core.autotune.tuner import Trial as Trial

_NAMES = {
    "AutoTuner": "tuner",
    "AutotuneResult": "tuner",
    "Profile": "profile",
    "Trial": "tuner",
    "TunedFunction": "decorator",
    "autotune": "decorator",
    "get_autotune_inputs": "inputs",
    "set_autotune_inputs": "inputs",
}
__all__ = list(_NAMES)


def __getattr__(name: str) -> Any:
    if name not in _NAMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_NAMES[name]}"), name)
    globals()[name] = value
    return value
