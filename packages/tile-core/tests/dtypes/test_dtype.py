"""`DType`: every spelling of a type is one object, everything else is refused."""

from __future__ import annotations

import copy
import pickle

import ml_dtypes
import numpy as np
import pytest
import torch

from tile_core import dtypes
from tile_core.dtypes import DType, as_dtype
from tile_core.errors import UnknownDTypeError, UnknownDTypeObjectError

SPELLINGS = {
    "float32": ["float", "float32", float, np.float32, np.dtype("float32"), torch.float32, dtypes.float, "float32x1"],
    "float16": ["half", np.half, torch.float16, torch.half],
    "float64": ["double", np.double, np.float64, torch.double],
    "int32": ["int", int, np.int32, torch.int32, np.dtype(np.intc)],
    "int64": ["long", np.longlong, np.int64, torch.long],
    "int16": ["short", np.short, torch.short],
    "uint32": ["uint", np.uint32, torch.uint32],
    "uint64": ["ulong", np.uint64, torch.uint64],
    "bool": [bool, "bool", np.bool_, torch.bool, np.dtype("bool")],
    "bfloat16": [torch.bfloat16, ml_dtypes.bfloat16, np.dtype(ml_dtypes.bfloat16)],
    "float8_e4m3fn": [torch.float8_e4m3fn, ml_dtypes.float8_e4m3fn],
    "float4_e2m1fnx2": [torch.float4_e2m1fn_x2],
    "tfloat32": ["custom[tfloat32]", "custom[tfloat32]32"],
    "tfloat32x4": ["custom[tfloat32]x4"],
    "float4_e2m1_unpacked": ["custom[float4_e2m1_unpacked]8"],
}
CASES = [(name, spelling) for name, spellings in SPELLINGS.items() for spelling in spellings]


@pytest.mark.parametrize(("name", "spelling"), CASES)
def test_a_spelling_is_the_type(name, spelling):
    assert as_dtype(spelling) is DType(name)
    assert DType(name) == spelling
    assert (DType(name) != spelling) is False
    assert DType("int8") != spelling


def test_equality_is_symmetric_where_the_other_side_allows_it():
    assert dtypes.float32 == torch.float32
    assert torch.float32 == dtypes.float32
    assert np.dtype("float32") == dtypes.float32
    assert "float".__eq__(dtypes.float32) is False  # a plain string compares itself; Python asks the subclass first:
    assert [word == dtypes.float32 for word in ("float", "half")] == [True, False]
    assert dtypes.float32 != None  # noqa: E711
    assert dtypes.float32 != 3


@pytest.mark.parametrize(
    "value",
    [
        "fp16",
        "bf16",
        "bf16x2",
        "e4m3_float8",
        "float99",
        "float32x0",
        "float32x",
        "x4",
        "",
        "handlex2",
        "float32x65536",
        "int7",
    ],
)
def test_a_string_that_names_nothing(value):
    with pytest.raises(UnknownDTypeError) as caught:
        as_dtype(value)
    assert repr(value) in str(caught.value)
    assert isinstance(caught.value, ValueError)


def test_a_common_name_of_elsewhere_is_explained():
    with pytest.raises(UnknownDTypeError, match="did you mean bfloat16"):
        as_dtype("bf16")


@pytest.mark.parametrize(("given", "meant"), [("flaot32", "float32"), ("unit8", "uint8"), ("bfloat32", "float32")])
def test_a_mistyped_name_is_explained(given, meant):
    with pytest.raises(UnknownDTypeError, match=f"did you mean {meant}"):
        as_dtype(given)


@pytest.mark.parametrize(
    "value",
    [
        None,
        3,
        complex,
        torch.complex64,
        np.complex64,
        np.dtype(">f4"),
        np.dtype("f4,f4"),
        np.str_,
        object,
        ml_dtypes.float8_e4m3,
        np.longdouble,
        np.datetime64,
    ],
)
def test_an_object_that_is_no_dtype(value):
    with pytest.raises(UnknownDTypeObjectError):
        as_dtype(value)


def test_identity_survives_copying_and_pickling():
    for name in ("float32x4", "bool", "tfloat32"):
        dtype = DType(name)
        assert copy.copy(dtype) is copy.deepcopy(dtype) is pickle.loads(pickle.dumps(dtype)) is dtype
        assert {dtype: 1}[DType(name)] == {name: 1}[dtype] == 1


def test_it_is_a_string_to_others():
    assert f"{dtypes.float16}|{dtypes.float16!r}|{dtypes.float16!s}" == "float16|DType('float16')|float16"
    assert np.zeros(2, dtypes.float16).dtype == np.float16


def test_lanes():
    assert dtypes.float16.with_lanes(8) is dtypes.float16x8
    assert dtypes.float16x8.element is dtypes.float16
    assert dtypes.float16x8.with_lanes(2) is dtypes.float16x2
    assert (dtypes.float16x8.is_vector, dtypes.float16.is_vector) == (True, False)
    with pytest.raises(UnknownDTypeError):
        dtypes.float16.with_lanes(0)


@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        ("bool", "is_bool"),
        ("int4", "is_int is_integer"),
        ("uint8x4", "is_unsigned is_integer"),
        ("tfloat32", "is_float"),
        ("float4_e2m1fn", "is_float"),
        ("handle", ""),
    ],
)
def test_kinds(name, kinds):
    asked = ("is_bool", "is_int", "is_unsigned", "is_integer", "is_float")
    assert {kind for kind in asked if getattr(DType(name), kind)} == set(kinds.split())


def test_unknown_attribute_of_the_package():
    with pytest.raises(AttributeError, match="float17"):
        _ = dtypes.float17
