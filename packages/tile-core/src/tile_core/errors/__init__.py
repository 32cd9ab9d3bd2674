"""Every error a user sees. One class has one code; see `base.py` for how they read."""

from tile_core.errors.autotune import *  # noqa: F403
from tile_core.errors.backends import *  # noqa: F403
from tile_core.errors.base import SourceSpan, TileError
from tile_core.errors.compat import *  # noqa: F403
from tile_core.errors.device import *  # noqa: F403
from tile_core.errors.dtypes import *  # noqa: F403
from tile_core.errors.emulator import *  # noqa: F403
from tile_core.errors.frontend import *  # noqa: F403
from tile_core.errors.interpreter import *  # noqa: F403
from tile_core.errors.layouts import *  # noqa: F403
from tile_core.errors.ops import *  # noqa: F403
from tile_core.errors.passes import *  # noqa: F403
from tile_core.errors.plugins import *  # noqa: F403
from tile_core.errors.runtime import *  # noqa: F403

__all__ = ["SourceSpan", "TileError"]
