"""The error kind of an assertion in a kernel.

It is not one of TVM's, so that an assertion of the author and a failure of the host code (`RuntimeError`,
`MemoryError`) are told apart: the jit registers a coded error for it.
"""

from __future__ import annotations

KERNEL_ASSERTION = "TileAssertion"
