"""`python -m tile_core.compat.tilelang`."""

from __future__ import annotations

import sys

from tile_core.compat.tilelang.runner import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
