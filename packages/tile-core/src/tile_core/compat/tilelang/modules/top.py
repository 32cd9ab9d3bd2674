"""The names of the package `tilelang` itself."""

from __future__ import annotations

import logging
from typing import Any

from tile_core.compat.tilelang.modules.autotuner import autotune
from tile_core.compat.tilelang.modules.engine import lower
from tile_core.compat.tilelang.modules.env import disable_cache, enable_cache, env, is_cache_enabled
from tile_core.compat.tilelang.modules.jit import JITKernel, compile, jit, par_compile  # noqa: A004 - TileLang's name
from tile_core.compat.tilelang.modules.layout import Fragment, Layout
from tile_core.compat.tilelang.modules.math import cdiv, next_power_of_2
from tile_core.compat.tilelang.modules.profiler import Profiler, TensorSupplyType
from tile_core.compat.tilelang.modules.transform import PassConfigKey
from tile_core.compat.tilelang.modules.utils import deprecated
from tile_core.compat.tilelang.table import table
from tile_core.dtypes import DType

__all__ = [  # noqa: PLE0604 - the last two are made on use
    "DataType",
    "Fragment",
    "JITKernel",
    "Layout",
    "PassConfigKey",
    "Profiler",
    "TensorSupplyType",
    "autotune",
    "build_date",
    "cdiv",
    "compile",
    "deprecated",
    "disable_cache",
    "enable_cache",
    "env",
    "is_cache_enabled",
    "jit",
    "lower",
    "next_power_of_2",
    "par_compile",
    "set_log_level",
    *("__version__", "tvm"),
]

DataType = DType


def _name_expressions() -> None:
    """Give TVM's expressions the name that annotations of programs have for them."""
    from tvm import ir, tirx

    if not hasattr(tirx, "PrimExpr"):
        tirx.PrimExpr = ir.Expr


_name_expressions()


def build_date(version_str: str | None = None) -> None:
    """When the package was built: unknown, as it is not built."""
    del version_str


def set_log_level(level: int | str) -> None:
    """The level of Python's logger `tilelang`, to which nothing here writes."""
    logging.getLogger("tilelang").setLevel(level)


def __getattr__(name: str) -> Any:
    if name == "tvm":
        import tvm

        return tvm
    if name == "__version__":
        from importlib import metadata

        return f"{table().version}+tile.{metadata.version('tile-core')}"
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
