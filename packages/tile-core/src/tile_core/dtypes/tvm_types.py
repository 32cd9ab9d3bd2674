"""Makes the types that TVM does not have known to it.

TVM asks two global functions for the code and the name of a `custom[...]` type; the codes are TileLang's, so that both
agree about a printed program.
"""

from __future__ import annotations

import functools

from tile_core.dtypes._table import ROWS

CUSTOM_CODES = {row[8].partition("[")[2].partition("]")[0]: row[2] for name, row in ROWS.items() if row[8] != name}


@functools.cache
def register_custom_types() -> None:
    """Register the codes with TVM; may be called any number of times."""
    import tvm_ffi

    names = {code: name for name, code in CUSTOM_CODES.items()}
    tvm_ffi.register_global_func("dtype.get_custom_type_code", CUSTOM_CODES.__getitem__, override=True)
    tvm_ffi.register_global_func("dtype.get_custom_type_name", names.__getitem__, override=True)
