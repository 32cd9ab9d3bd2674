"""One program for every code of layouts: its class, the line where it is in a kernel, and what its message names."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from tile_core.errors import layouts as codes
from tile_core.passes.base import PassContext, run_pipeline
from tile_core.passes.pipeline import apply_edits, default_pipeline
from tile_core.passes.threads import thread_edits
from tile_core.targets import Capabilities
from tile_core.testing.codes import Program, inside, refuse

PROGRAMS = {
    "DivergentBarrierError": Program(
        inside(
            """
            tile = T.alloc_shared((8,), "float32")
            if T.get_thread_binding(0) < 16:
                T.copy(X, tile)  # HERE
                for i in T.Parallel(8):
                    X[i] = tile[7 - i]
            """,
            then="lower(kernel)",
        ),
        "16 of ",
    ),
    "LayoutError": Program("T.Fragment((4, 4), forward_fn=lambda i, j: (i, 0)).table", "shape (4, 4) is not injective"),
    "PlottingUnavailableError": Program(
        """
import sys
from tile_core.layouts import plot_layout
monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
plot_layout(T.Layout((4, 4), lambda i, j: (j, i)), tmp_path / "layout.png")
""",
        "matplotlib",
    ),
}


def lower(kernel):
    """Run the passes of a target with threads."""
    capabilities = Capabilities(
        threads=True,
        max_threads=1024,
        warp_size=32,
        vector_bytes=16,
        shared_bytes=48 * 1024,
        dtypes=frozenset({"float32", "int32"}),
    )
    context = PassContext(None, capabilities, SimpleNamespace(name="made-up", op_lowerings={}))
    run_pipeline(kernel, apply_edits(default_pipeline(capabilities), thread_edits()), context)


SCOPE = {"lower": lower}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_for_each_code(name, monkeypatch, tmp_path):
    refuse(getattr(codes, name), PROGRAMS[name], {**SCOPE, "monkeypatch": monkeypatch, "tmp_path": tmp_path})
