"""tile-core: a tile language whose kernels run on every backend that is installed.

`import tile_core as tl; import tile_core.language as T` is the whole front door. Names are loaded on use (PEP 562):
importing this package imports neither TVM nor numpy nor torch. `jit` and `autotune` alone are bound at once, because
the packages of these names would otherwise take them as soon as anything imports one.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from tile_core.autotune.decorator import autotune
from tile_core.jit.jit import jit

if TYPE_CHECKING:
    from tile_core import errors as errors
    from tile_core import language as language
    from tile_core.autotune.inputs import set_autotune_inputs as set_autotune_inputs
    from tile_core.autotune.tuner import AutoTuner as AutoTuner
    from tile_core.autotune.tuner import AutotuneResult as AutotuneResult
    from tile_core.jit.compile import compile as compile  # noqa: A004 - the language's own name
    from tile_core.jit.compile import par_compile as par_compile
    from tile_core.jit.control import clear_cache as clear_cache
    from tile_core.jit.control import disable_cache as disable_cache
    from tile_core.jit.control import enable_cache as enable_cache
    from tile_core.jit.control import is_cache_enabled as is_cache_enabled
    from tile_core.jit.control import set_cache as set_cache
    from tile_core.jit.jit import JITFunction as JITFunction
    from tile_core.jit.kernel import JITKernel as JITKernel
    from tile_core.jit.kernel import KernelParam as KernelParam
    from tile_core.jit.profiler import Profiler as Profiler
    from tile_core.jit.profiler import TensorSupplyType as TensorSupplyType
    from tile_core.settings import settings as settings
    from tile_core.targets.select import select_target as select_target
    from tile_core.targets.target import Target as Target

    __version__: str

_NAMES = {
    "AutoTuner": "tile_core.autotune.tuner",
    "AutotuneResult": "tile_core.autotune.tuner",
    "JITFunction": "tile_core.jit.jit",
    "JITKernel": "tile_core.jit.kernel",
    "KernelParam": "tile_core.jit.kernel",
    "Profiler": "tile_core.jit.profiler",
    "Target": "tile_core.targets.target",
    "TensorSupplyType": "tile_core.jit.profiler",
    "clear_cache": "tile_core.jit.control",
    "compile": "tile_core.jit.compile",
    "disable_cache": "tile_core.jit.control",
    "enable_cache": "tile_core.jit.control",
    "is_cache_enabled": "tile_core.jit.control",
    "par_compile": "tile_core.jit.compile",
    "select_target": "tile_core.targets.select",
    "set_autotune_inputs": "tile_core.autotune.inputs",
    "set_cache": "tile_core.jit.control",
    "settings": "tile_core.settings",
}
_MODULES = ("errors", "language")

__all__ = [*_NAMES, *_MODULES, "__version__", "autotune", "jit"]  # noqa: PLE0604 - the tables above hold text


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib import metadata

        return metadata.version("tile-core")
    if name in _MODULES:
        return importlib.import_module(f"{__name__}.{name}")
    if name not in _NAMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}{_elsewhere(name)}")
    value = getattr(importlib.import_module(_NAMES[name]), name)
    globals()[name] = value
    return value


def _elsewhere(name: str) -> str:
    from tile_core.language._names import PORTABLE_NAMES

    is_language = any(name in names for names in PORTABLE_NAMES.values())
    return f"; it is T.{name} of `import tile_core.language as T`" if is_language else ""


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
