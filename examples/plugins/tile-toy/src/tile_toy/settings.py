"""The environment variables of this backend."""

from __future__ import annotations

from tile_core.settings import TEXT, Setting, Settings


class ToySettings(Settings):
    """`tile env` lists these after the ones of tile-core."""

    cc = Setting(
        "TILE_TOY_CC", TEXT, "cc", "The C compiler that the target toy uses, a name or a path.", changes_code=True
    )


settings = ToySettings()
