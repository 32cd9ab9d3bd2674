"""Whether two runs computed the same numbers.

Integers agree bit for bit. Floats agree within some units of the coarsest float dtype of the program, relative to the
largest value of their tensor: targets add and multiply in different orders and call different elementary functions.
NaN and infinities stand at the same places.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

from tile_core.dtypes import DType

TOLERANCES = {"float64": 2.0**-17, "float32": 2.0**-17, "float16": 2.0**-8, "bfloat16": 2.0**-5}
"""64 units of a float32, in which sums and elementary functions are computed, and 4 of what they are rounded to."""
_COARSE = 0.5
_PACKED = (torch.float4_e2m1fn_x2,)
"""Several numbers a byte, which torch only moves: they agree byte by byte."""


def difference(expected: list[list[Any]], actual: list[list[Any]], dtypes: Iterable[DType]) -> str | None:
    """The first difference, in words; `None` where there is none."""
    if len(expected) != len(actual):
        return f"{len(expected)} calls on the interpreter, {len(actual)} on the target"
    tolerance = max([TOLERANCES["float32"], *(TOLERANCES.get(dtype.name, _COARSE) for dtype in dtypes)])
    for call, (wanted, given) in enumerate(zip(expected, actual, strict=True)):
        for position, (a, b) in enumerate(zip(wanted, given, strict=True)):
            if isinstance(a, torch.Tensor) and (found := _of_tensors(a, b, tolerance)):
                return f"call {call}, argument {position}: {found}"
    return None


def _of_tensors(a: torch.Tensor, b: torch.Tensor, tolerance: float) -> str | None:
    if a.shape != b.shape or a.dtype != b.dtype:
        return f"{a.dtype}{list(a.shape)} and {b.dtype}{list(b.shape)}"
    if not a.numel():
        return None
    if a.dtype in _PACKED:
        a, b = a.view(torch.uint8), b.view(torch.uint8)
    if not a.dtype.is_floating_point:
        differ = a != b
    else:
        x, y = a.double(), b.double()
        finite = x.isfinite() & y.isfinite()
        scale = x.abs().where(finite, torch.zeros_like(x)).max()
        near = (x - y).abs() <= tolerance * torch.maximum(scale, torch.maximum(x.abs(), y.abs()))
        same = (x == y) | (x.isnan() & y.isnan())
        differ = ~(same | (finite & near))
    if not differ.any():
        return None
    at = tuple(int(index) for index in differ.nonzero()[0])
    return f"{int(differ.sum())} of {a.numel()} elements, first at {list(at)}: {a[at].item()} and {b[at].item()}"
