"""The call of a compiled kernel from Python in machine code, from the arguments to the packed function.

A call must cost less than the smallest operation of torch. tvm-ffi's own call makes two objects of every tensor, and a
Python function around it asks torch, tensor by tensor, whether what lies in memory is the negative of what is meant.
`direct.ll` does both without an object: it takes what the call gives (CPython's vectorcall), asks each tensor with the
same method, has torch describe it in place (`dltensor_from_py_object_no_sync` of DLPack's exchange API, made for
libraries that only look), enters the current stream, and calls the packed function as tvm-ffi does, without the GIL.

Only exact `torch.Tensor`s, parameters, ints, floats, bools and `None` go this way, and only where their number is right
and none has a name. Everything else, and every failure, goes to a Python function with the arguments as they were.
"""

from __future__ import annotations

import ctypes
import functools
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib import resources
from typing import Any

import tvm_ffi

from tile_core.jit.objects import compiled_text, load_object

Call = Callable[..., Any]

_API = b"dlpack_exchange_api"
_DLPACK_MAJOR = 1
_TAKES_KEYWORDS_FAST = 0x82  # METH_FASTCALL | METH_KEYWORDS
_NEEDED = (
    "PyCapsule_GetPointer", "PyErr_Clear", "PyErr_Occurred", "PyEval_RestoreThread", "PyEval_SaveThread",
    "PyFloat_AsDouble", "PyLong_AsLongLong", "PyObject_Type", "PyObject_Vectorcall", "Py_DecRef", "Py_IncRef",
)  # fmt: skip
"""What `direct.ll` calls of Python: a program that embeds Python may keep it to itself."""


class _Exchange(ctypes.Structure):
    """`DLPackExchangeAPI`."""

    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("previous", ctypes.c_void_p),
        ("allocate", ctypes.c_void_p),
        ("managed_tensor", ctypes.c_void_p),
        ("to_object", ctypes.c_void_p),
        ("describe", ctypes.c_void_p),
        ("current_stream", ctypes.c_void_p),
    )


class _Kinds(ctypes.Structure):
    """`%kinds` of `direct.ll`: addresses of objects that live as long as the process, and torch's functions."""

    _fields_ = tuple(
        (name, ctypes.c_void_p)
        for name in (
            "tensor", "parameter", "is_neg", "integer", "real", "true", "false", "none",
            "describe", "current_stream", "allocate",
        )
    )  # fmt: skip


class _Kernel(ctypes.Structure):
    """`%kernel` of `direct.ll`."""

    _fields_ = (
        ("function", ctypes.c_void_p),
        ("count", ctypes.c_int64),
        ("otherwise", ctypes.py_object),
        ("failed", ctypes.py_object),
        ("kinds", ctypes.c_void_p),
    )


class _Method(ctypes.Structure):
    """`PyMethodDef`."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("text", ctypes.c_char_p),
    )


@dataclass(frozen=True)
class _Machine:
    """What all direct calls share."""

    method: _Method
    kinds: _Kinds
    kept: tuple[object, ...]
    raise_last: Call


def direct_call(run: Call, count: int, otherwise: Call, failed: Call | None = None) -> Call | None:
    """A function of `count` arguments that calls the packed function `run`; `None` where that is not possible (yet).

    Args:
        run: a `tvm_ffi.Function` that returns nothing.
        count: the number of its parameters.
        otherwise: called with the arguments where they are others than the module's text lists, or a tensor's sign is
            lazy; nothing has run.
        failed: called with the arguments when the packed function refused them or failed; `raise_last` raises what it
            says. By default, that is raised.

    It needs CPython, and a torch that was imported and has DLPack's exchange API.
    """
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(run, tvm_ffi.Function):
        return None
    machine = _machine()
    if machine is None:
        return None
    record = _Kernel(run.__chandle__(), count, otherwise, failed or _raiser(machine), ctypes.addressof(machine.kinds))
    capsule = _python("PyCapsule_New", ctypes.py_object, *[ctypes.c_void_p] * 3)
    function = _python("PyCFunction_NewEx", ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.py_object)
    made: Call = function(
        ctypes.addressof(machine.method),
        capsule(ctypes.addressof(record), None, None),
        (record, machine, run),  # which the function keeps alive
    )
    return made


def raise_last() -> None:
    """Raise what the packed function said that failed last in this thread.

    For a function that `direct_call` calls as `failed`.
    """
    machine = _machine()
    assert machine is not None
    machine.raise_last()


def _raiser(machine: _Machine) -> Call:
    return lambda *_arguments: machine.raise_last()


@functools.cache
def _machine() -> _Machine | None:
    """The machine code, made by the first call of a process in which torch is loaded."""
    import torch

    api = getattr(torch.Tensor, "__dlpack_c_exchange_api__", None)
    if sys.implementation.name != "cpython" or api is None:
        return None
    process = ctypes.CDLL(None)
    if not all(hasattr(process, name) for name in _NEEDED):
        return None
    pointer = _python("PyCapsule_GetPointer", ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)
    exchange = _Exchange.from_address(pointer(api, _API))
    if exchange.major != _DLPACK_MAJOR or not (exchange.describe and exchange.current_stream):
        return None
    is_neg = torch.Tensor.is_neg
    objects = (torch.Tensor, torch.nn.Parameter, is_neg, int, float, True, False, None)
    functions = (exchange.describe, exchange.current_stream, exchange.allocate)
    kinds = _Kinds(*map(id, objects), *functions)
    text = resources.files("tile_core.jit").joinpath("direct.ll").read_text("utf-8")
    module = load_object(compiled_text(text), stays=True)
    method = _Method(b"kernel", int(module["tile_direct_call"]()), _TAKES_KEYWORDS_FAST, None)
    return _Machine(method, kinds, objects, module["tile_direct_raise"])


def _python(name: str, result: Any, *arguments: Any) -> Any:
    """A function of CPython's C interface."""
    return ctypes.PYFUNCTYPE(result, *arguments)((name, ctypes.pythonapi))
