"""Names of the Metal dialect that are known but not implemented yet.

They are refused by name, so that a kernel brought from elsewhere says what it waits for.
"""

from __future__ import annotations

UNIMPLEMENTED = frozenset(
    """
    cooperative_tensor_fill cooperative_tensor_load cooperative_tensor_multiply_accumulate cooperative_tensor_store
    make_filled_simdgroup_matrix simdgroup_load simdgroup_multiply_accumulate simdgroup_store
    """.split()
)
