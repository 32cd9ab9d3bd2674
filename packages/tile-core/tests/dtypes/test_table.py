"""The table of dtypes: complete, equal to its YAML, and right about sizes and foreign types."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

import ml_dtypes
import pytest
import torch

from tile_core import dtypes
from tile_core.dtypes import EXPORTED_NAMES, DType, _table, document, generate

REPOSITORY = Path(__file__).parents[4]
SCALARS = [name for name in dtypes.EXPORTED_NAMES if DType(name).lanes == 1 and DType(name).name == name]
FLOATS = [name for name in SCALARS if DType(name).is_float and name != "tfloat32"]
INTEGERS = [name for name in SCALARS if DType(name).is_integer] + ["uint4"]


def test_declared_names_are_current():
    declared = Path(_table.__file__).with_name("_declared.pyi").read_text(encoding="utf-8")
    assert declared == generate.declarations(EXPORTED_NAMES)


def test_generated_table_is_current():
    assert generate.table_source(generate.load()) == Path(_table.__file__).read_text(encoding="utf-8")


def test_documentation_page_is_current():
    assert (REPOSITORY / "docs/language/dtypes.md").read_text(encoding="utf-8") == document.page()


def test_there_are_173_exported_names_each_a_distinct_type_or_an_alias():
    assert len(dtypes.EXPORTED_NAMES) == len(set(dtypes.EXPORTED_NAMES)) == 173
    assert len({id(DType(name)) for name in dtypes.EXPORTED_NAMES}) == 173 - len(_table.ALIASES)
    assert {alias for alias in dtypes.EXPORTED_NAMES if DType(alias).name != alias} == set(_table.ALIASES)


def test_members_of_each_family():
    # Aliases count with the type that they name.
    counts = Counter(DType(name).family for name in dtypes.EXPORTED_NAMES)
    assert counts == {
        "boolean": 1,
        "signed integer": 29 + 3,
        "unsigned integer": 28 + 1,
        "float": 21 + 3,
        "bfloat16": 2,
        "tfloat32": 7,
        "float8": 56,
        "float6": 14,
        "float4": 8,
    }


@pytest.mark.parametrize("name", FLOATS)
def test_float_limits_are_those_of_ml_dtypes(name):
    dtype = DType(name)
    info = ml_dtypes.finfo(dtype.numpy)
    form = dtype.float_format
    ours = (dtype.max, dtype.min, form.smallest_normal, form.smallest, form.epsilon)
    theirs = (info.max, info.min, info.smallest_normal, info.smallest_subnormal, info.eps)
    assert ours == tuple(float(value) for value in theirs)


@pytest.mark.parametrize("name", INTEGERS)
def test_integer_limits_are_those_of_ml_dtypes(name):
    info = ml_dtypes.iinfo(DType(name).numpy)
    assert (DType(name).min, DType(name).max) == (info.min, info.max)


@pytest.mark.parametrize("name", [name for name in FLOATS if DType(name).bits <= 8])
def test_every_code_decodes_to_a_value_that_the_format_claims(name):
    import numpy as np

    dtype = DType(name)
    form = dtype.float_format
    width = 4 if "float4" in name else dtype.bits
    values = np.arange(2**width, dtype=np.uint8).view(dtype.numpy).astype(np.float64)
    assert bool(np.isnan(values).any()) == form.has_nan
    assert bool(np.isinf(values).any()) == form.has_infinity
    finite = values[np.isfinite(values)]
    assert finite.max() == form.max
    assert finite[finite > 0].min() == form.smallest


@pytest.mark.parametrize(
    ("name", "size", "five"),
    [
        ("int4", 1, 3),
        ("uint4", 1, 3),
        ("float4_e2m1fn", 1, 3),
        ("float4_e2m1fnx2", 1, 5),
        ("float4_e2m1fnx64", 32, 160),
        ("float4_e2m1_unpacked", 1, 5),
        ("float6_e2m3fn", 1, 4),
        ("float6_e3m2fnx2", 2, 8),
        ("float6_e3m2fnx4", 3, 15),
        ("bool", 1, 5),
        ("tfloat32x8", 32, 160),
        ("float8_e8m0fnux2", 2, 10),
        ("int64x64", 512, 2560),
    ],
)
def test_sizes(name, size, five):
    dtype = DType(name)
    assert (dtype.bytes, dtype.itemsize, dtype.nbytes(5), dtype.nbytes(0)) == (size, size, five, 0)


@pytest.mark.parametrize(("name", "count"), [("int4", 2), ("float4_e2m1fn", 2), ("float4_e2m1fnx2", 1), ("int32", 1)])
def test_values_per_byte(name, count):
    assert DType(name).per_byte == count


@pytest.mark.parametrize("name", SCALARS)
def test_torch_and_numpy_mappings_come_back(name):
    dtype = DType(name)
    if dtype.name in ("float8_e4m3", "tfloat32", "int4", "float4_e2m1_unpacked", "float4_e2m1fn"):
        return  # several types share the storage of these
    assert DType(dtype.numpy) is dtype
    if _table.ROWS[name][6] is not None:
        assert DType(dtype.torch) is dtype


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("float8_e4m3", torch.float8_e4m3fn),
        ("float8_e5m2", torch.float8_e5m2),
        ("float4_e2m1fn", torch.float4_e2m1fn_x2),
        ("float4_e2m1fnx2", torch.float4_e2m1fn_x2),
        ("tfloat32", torch.float32),
        ("int4", torch.int8),
        ("uint4", torch.uint8),
    ],
)
def test_shared_torch_storage(name, expected):
    assert DType(name).torch is DType(name).as_torch() is expected


@pytest.mark.parametrize(
    "name",
    ["float32x4", "float8_e3m4", "float8_e4m3b11fnuz", "float6_e2m3fn", "float4_e2m1_unpacked", "handle", "void"],
)
def test_no_torch_mapping(name):
    from tile_core.errors import DTypeMappingError

    with pytest.raises(DTypeMappingError, match=name):
        _ = DType(name).torch


@pytest.mark.parametrize("name", dtypes.EXPORTED_NAMES)
def test_tvm_agrees_about_bits_lanes_and_code(name):
    import tvm_ffi

    dtype = DType(name)
    theirs = tvm_ffi.dtype(dtype.tvm)
    assert (theirs.bits, theirs.lanes, theirs.type_code) == (dtype.bits, dtype.lanes, dtype.type_code)
    assert DType(theirs) is dtype
    assert DType.from_dlpack_data_type((dtype.type_code, dtype.bits, dtype.lanes)) is dtype


def test_tvm_nodes_keep_the_custom_types():
    from tvm import tirx

    for name in ("tfloat32", "float4_e2m1_unpacked"):
        buffer = tirx.decl_buffer((4,), DType(name).tvm)
        assert DType(buffer.dtype) is DType(name)
        assert DType(tirx.BufferLoad(buffer, [0]).ty) is DType(name)


def test_importing_the_dtypes_imports_nothing_heavy():
    code = "import sys, tile_core.dtypes as d; d.float32; print({'numpy', 'torch', 'tvm', 'yaml'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
