"""`tilelang.carver.arch.driver`: what programs ask of the device before they lay out a persistent kernel."""

from __future__ import annotations

import os

from tile_core.compat.tilelang.devices import absent, runs_on_host
from tile_core.compat.tilelang.table import table

__all__ = ["get_num_sms"]


def get_num_sms(device_id: int = 0) -> int:
    """How many blocks can run at once: multiprocessors of the device, or cores where kernels run on the host.

    Raises:
        CompatDeviceError: the kernels are for a device that is not here.
    """
    if runs_on_host():
        return os.cpu_count() or 1
    import torch

    module = getattr(torch, table().device)
    if not module.is_available():
        raise absent("the number of its multiprocessors")
    return int(module.get_device_properties(device_id).multi_processor_count)
