"""Where elements live: layouts of buffers and fragments over threads.

Each has two forms. The symbolic one (a TVM `IndexMap`) goes into code; the tabulated one (numpy) is for reasoning:
equality, inverse, injectivity, coalescing, bank conflicts. Tiles are small, so the table is the truth that the
symbolic form is tested against.
"""

from tile_core.layouts.fragment import Fragment
from tile_core.layouts.layout import Layout
from tile_core.layouts.parallel import parallel_fragment
from tile_core.layouts.plot import bank_conflicts, plot_layout

__all__ = ["Fragment", "Layout", "bank_conflicts", "parallel_fragment", "plot_layout"]
