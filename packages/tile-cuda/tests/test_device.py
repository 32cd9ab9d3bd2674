"""The conformance suite on a GPU."""

from __future__ import annotations

import pytest

from tile_core.testing import BackendConformance
from tile_cuda.target import detect

_found = detect()


@pytest.mark.device
@pytest.mark.skipif(not _found.available, reason=_found.reason)
class TestGpu(BackendConformance):
    target = "cuda"
    device = "cuda"
