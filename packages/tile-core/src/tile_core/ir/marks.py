"""Names of what marks a tile program's loops, tensors and functions; the frontend sets them and passes read them."""

from __future__ import annotations

PARALLEL = "tile.parallel"
"""On the outermost loop of a parallel nest: the nest's rank."""
COALESCED_WIDTH = "tile.coalesced_width"
"""On the outermost loop of a parallel nest: how many elements a thread takes at once, at the author's wish."""
LOOP_LAYOUT = "tile.loop_layout"
"""On the outermost loop of a parallel nest: which thread runs which iteration, at the author's wish."""
NUM_STAGES = "tile.num_stages"
"""On a loop of `T.Pipelined`: how many steps are under way at once."""
ORDER, STAGE, GROUP = "tile.order", "tile.stage", "tile.group"
"""On a loop of `T.Pipelined`: its author's schedule, as `T.Pipelined` describes `order`, `stage` and `group`."""
SAFE_VALUE = "tile.safe_value"
"""An attribute of a tensor: what a read outside of it gives."""
OUT_IDX = "tile.out_idx"
"""An attribute of a function: the positions of the parameters that a call returns."""
PASS_CONFIGS = "tile.pass_configs"  # noqa: S105 - passes, not passwords
"""An attribute of a function: options of passes that its author set inside of it."""
COMPILE_FLAGS = "tile.compile_flags"
"""An attribute of a function: flags for the vendor's compiler that its author set inside of it."""
