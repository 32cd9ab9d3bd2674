"""Names of the CUDA dialect that are known but not implemented yet.

They are refused by name, so that a kernel brought from elsewhere says what it waits for.
"""

from __future__ import annotations

UNIMPLEMENTED: frozenset[str] = frozenset()
