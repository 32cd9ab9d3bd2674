"""Attributes of a launch: clusters, grids that run at once, overlap with the launch before, what stays in the L2 cache.

The compiler writes them into an artifact as JSON; the runtime makes the driver's structures of them once a device, and
`launch.ll` hands them to `cuLaunchKernelEx`. (CUDA Driver API, "CUlaunchAttribute", "CUaccessPolicyWindow".)
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from math import prod
from typing import TYPE_CHECKING, Any

from tile_core.ir import regions, visit

if TYPE_CHECKING:
    from tile_core.device import DeviceKernel

L2_RATIO = "l2_hit_ratio."
"""What the launch option of a tensor begins with; its value is the ratio in `L2_STEPS`."""
L2_STEPS = 1000

_ACCESS_POLICY_WINDOW, _COOPERATIVE, _CLUSTER_DIMENSION, _PROGRAMMATIC_STREAM_SERIALIZATION = 1, 2, 4, 6
_PROPERTY_STREAMING, _PROPERTY_PERSISTING = 1, 2


class _Window(ctypes.Structure):
    """`CUaccessPolicyWindow`."""

    _fields_ = (
        ("base", ctypes.c_void_p),
        ("bytes", ctypes.c_size_t),
        ("ratio", ctypes.c_float),
        ("hit", ctypes.c_int),
        ("miss", ctypes.c_int),
    )


class _Value(ctypes.Union):
    """`CUlaunchAttributeValue`."""

    _fields_ = (
        ("padding", ctypes.c_char * 64),
        ("cluster", ctypes.c_uint * 3),
        ("is_set", ctypes.c_int),
        ("window", _Window),
    )


class Attribute(ctypes.Structure):
    """`CUlaunchAttribute`, 72 bytes."""

    _fields_ = (("id", ctypes.c_int), ("padding", ctypes.c_int), ("value", _Value))


def described(kernel: DeviceKernel) -> dict[str, Any]:
    """The attributes of a kernel's launch as JSON; empty where it needs none."""
    found: dict[str, Any] = {}
    if prod(kernel.cluster) > 1:
        found["cluster"] = list(kernel.cluster)
    if kernel.is_cooperative:
        found["cooperative"] = True
    if any(str(getattr(call.op, "name", "")) == "tile.thread.launch_wait" for call in _calls(kernel)):
        found["overlaps"] = True
    for position, var in enumerate(kernel.func.params):
        ratio = kernel.options.get(f"{L2_RATIO}{var.name}")
        if ratio is not None:
            extents = [regions.constant(extent) or 0 for extent in var.shape]
            size = prod(extents) * int(var.dtype.bits) // 8
            found["window"] = {"parameter": position, "bytes": size, "ratio": ratio / L2_STEPS}
    return found


def _calls(kernel: DeviceKernel) -> list[Any]:
    from tvm import ir

    return visit.collect(kernel.func.body, ir.Call)


def made(facts: Mapping[str, Any], most_bytes: int) -> tuple[ctypes.Array[Attribute], int]:
    """The driver's attributes, and the position of the parameter whose address the first one takes, -1 for none.

    A window is at most `most_bytes` long, the device's limit.
    """
    attributes: list[Attribute] = []
    window = facts.get("window")
    if window is not None and most_bytes:
        size = min(window["bytes"], most_bytes)
        value = _Value(window=_Window(None, size, window["ratio"], _PROPERTY_PERSISTING, _PROPERTY_STREAMING))
        attributes.append(Attribute(_ACCESS_POLICY_WINDOW, 0, value))
    parameter = int(window["parameter"]) if attributes and window is not None else -1
    if "cluster" in facts:
        sizes = (ctypes.c_uint * 3)(*facts["cluster"])
        attributes.append(Attribute(_CLUSTER_DIMENSION, 0, _Value(cluster=sizes)))
    if facts.get("cooperative"):
        attributes.append(Attribute(_COOPERATIVE, 0, _Value(is_set=1)))
    if facts.get("overlaps"):
        attributes.append(Attribute(_PROGRAMMATIC_STREAM_SERIALIZATION, 0, _Value(is_set=1)))
    return (Attribute * len(attributes))(*attributes), parameter
