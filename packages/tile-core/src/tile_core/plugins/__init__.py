"""How backends join: a manifest, a few hooks, and discovery through entry points of the group `tile.backends`."""

from tile_core.plugins.hookspecs import hookimpl
from tile_core.plugins.manifest import Backend, Detection, Priority

__all__ = ["Backend", "Detection", "Priority", "hookimpl"]
