"""The plugin: its manifest, its dialect and its targets."""

from __future__ import annotations

from tile_core.testing import PluginContract


class TestPlugin(PluginContract):
    """What holds for every plugin."""

    backend = "metal"
    table = "tile_metal.target:table"
