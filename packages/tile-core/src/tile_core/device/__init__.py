"""Kernels that run elsewhere than the host code that launches them: splitting a program and building its host half."""

from tile_core.device.descriptors import address_of_data
from tile_core.device.host import HOST_OBJECT, SET_LAUNCHER, host_object
from tile_core.device.launcher import set_launcher, value_address
from tile_core.device.split import DeviceKernel, SplitProgram, split_launches

__all__ = [
    "HOST_OBJECT",
    "SET_LAUNCHER",
    "DeviceKernel",
    "SplitProgram",
    "address_of_data",
    "host_object",
    "set_launcher",
    "split_launches",
    "value_address",
]
