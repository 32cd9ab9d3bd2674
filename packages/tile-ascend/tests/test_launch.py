"""Launching through the runtime of CANN, for which an object stands that keeps what it is told. No NPU takes part."""

from __future__ import annotations

import contextlib
import ctypes
import struct
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from tile_ascend import cann, runtime
from tile_core.jit.artifact import Artifact

KERNELS = [{"name": "first_kernel", "arguments": [[0, 8], [1, 4], [2, 1], [3, 8]]}]


class Function:
    restype: Any = None

    def __init__(self, call: Any) -> None:
        self.call = call

    def __call__(self, *arguments: Any) -> Any:
        return self.call(*arguments)


class Runtime:
    """Succeeds but for what `failing` says; a device of `cores` vector cores."""

    def __init__(self, cores: int = 3, failing: str = "") -> None:
        self.cores, self.failing = cores, failing
        self.calls: list[tuple[str, tuple[Any, ...]]] = []

    def __getattr__(self, name: str) -> Function:
        def call(*arguments: Any) -> int:
            self.calls.append((name, arguments))
            if name == "aclGetDeviceCapability":
                arguments[2]._obj.value = self.cores if arguments[1] == 1 else self.cores // 2
            return 7 if name == self.failing else 0

        return Function(call)

    def called(self, name: str) -> list[tuple[Any, ...]]:
        return [arguments for each, arguments in self.calls if each == name]


@pytest.fixture
def binary(monkeypatch: pytest.MonkeyPatch) -> Any:
    stream = SimpleNamespace(npu_stream=0x5000)
    npu = SimpleNamespace(device=lambda number: contextlib.nullcontext(), current_stream=lambda number: stream)
    monkeypatch.setattr(torch, "npu", npu, raising=False)

    def make(acl: Runtime, unit: str = "vector") -> Any:
        monkeypatch.setattr(cann, "runtime", lambda: acl)
        kernels = [{**kernel, "unit": unit} for kernel in KERNELS]
        return runtime._Binary(Artifact({runtime.BINARY: b"elf"}, report={"symbol": "first", "kernels": kernels}))

    return make


def cells(*values: bytes) -> Any:
    packed = b"".join(bytes(8) + value.ljust(8, b"\xee") for value in values)
    return ctypes.create_string_buffer(packed, len(packed))


ARGUMENTS = (struct.pack("q", 0x1000), struct.pack("f", 1.5), b"\x01", struct.pack("q", -2))


def test_a_launch_hands_over_one_record_in_which_arguments_are_aligned(binary: Any) -> None:
    acl = Runtime()
    made, arguments = binary(acl), cells(*ARGUMENTS)
    assert made._launch(None, 0, ctypes.addressof(arguments), 2, 5, 1, 0) == 0
    ((_function, cores, stream, config, record, size, _holders, count),) = acl.called("aclrtLaunchKernelWithHostArgs")
    assert record == struct.pack("=qfB3xq", 0x1000, 1.5, 1, -2)
    assert (cores.value, stream.value, config, size.value, count.value) == (3, 0x5000, None, len(record), 0)
    assert [name for _binary, name, _function in acl.called("aclrtBinaryGetFunction")] == [b"first_kernel"]


def test_a_binary_is_loaded_once_a_device_for_vector_cores(binary: Any) -> None:
    acl = Runtime(cores=64)
    made, arguments = binary(acl), cells(*ARGUMENTS)
    for _turn in range(2):
        assert made._launch(None, 0, ctypes.addressof(arguments), 4, 1, 1, 0) == 0
    ((content, size, options, _binary),) = acl.called("aclrtBinaryLoadFromData")
    assert (content, size.value) == (b"elf", 3)
    option = options._obj.options[0]
    assert (options._obj.count, option.type, option.value[0]) == (1, 2, 0x41415246)
    assert [call[1].value for call in acl.called("aclrtLaunchKernelWithHostArgs")] == [4, 4]


def test_a_kernel_of_the_cube_unit_is_for_as_many_ai_cores(binary: Any) -> None:
    acl = Runtime(cores=64)
    made, arguments = binary(acl, "cube"), cells(*ARGUMENTS)
    assert made._launch(None, 0, ctypes.addressof(arguments), 50, 1, 1, 0) == 0
    assert acl.called("aclrtBinaryLoadFromData")[0][2]._obj.options[0].value[0] == 0x43554245
    assert acl.called("aclrtLaunchKernelWithHostArgs")[0][1].value == 32


@pytest.mark.parametrize(
    "failing",
    ["aclGetDeviceCapability", "aclrtBinaryLoadFromData", "aclrtBinaryGetFunction", "aclrtLaunchKernelWithHostArgs"],
)
def test_a_status_of_the_runtime_ends_the_launch(binary: Any, failing: str) -> None:
    made, arguments = binary(Runtime(failing=failing)), cells(*ARGUMENTS)
    assert made._launch(None, 0, ctypes.addressof(arguments), 1, 1, 1, 0) == 7
    assert made._status == 7
