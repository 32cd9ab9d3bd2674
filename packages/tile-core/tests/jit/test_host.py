"""The entry's decision against the explanation in Python: both agree on every argument, and refusals write nothing."""

from __future__ import annotations

import ctypes
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
import tvm_ffi
from hypothesis import given, settings
from hypothesis import strategies as st
from torch._subclasses.fake_tensor import FakeTensorMode

from tile_core import errors
from tile_core.jit.arguments import check
from tile_core.jit.host import ArgumentRefused
from tile_core.jit.signature import read_signature
from tile_core.testing.scripts import load_script

native = load_script(Path(__file__).with_name("native.py"))

SIGNATURES = {str(func.attrs["global_symbol"]): read_signature(func) for func in native.PROGRAMS}


@pytest.fixture(scope="module")
def built():
    return native.build(*native.PROGRAMS)


def f32(*shape):
    return torch.arange(float(np.prod(shape)), dtype=torch.float32).reshape(shape)


def fake(*shape):
    with FakeTensorMode():
        return torch.empty(shape)


def nested():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.nested.nested_tensor([torch.zeros(4), torch.zeros(4)])


REFUSED = {
    "count": ("add", lambda: (f32(2, 4), f32(2, 4)), errors.ArgumentCountError),
    "no arguments": ("add", tuple, errors.ArgumentCountError),
    "rank": ("add", lambda: (f32(2, 4), f32(8), f32(2, 4)), errors.ArgumentRankError),
    "constant extent": ("add", lambda: (f32(2, 5), f32(2, 4), f32(2, 4)), errors.ArgumentShapeError),
    "other argument": ("add", lambda: (f32(2, 4), f32(3, 4), f32(2, 4)), errors.ArgumentShapeError),
    "dtype": ("add", lambda: (f32(2, 4), f32(2, 4).double(), f32(2, 4)), errors.ArgumentDtypeError),
    "half": ("add", lambda: (f32(2, 4), f32(2, 4).half(), f32(2, 4)), errors.ArgumentDtypeError),
    "same width": ("add", lambda: (f32(2, 4), f32(2, 4).int(), f32(2, 4)), errors.ArgumentDtypeError),
    "transposed": ("add", lambda: (f32(4, 4).T, f32(4, 4), f32(4, 4)), errors.ArgumentLayoutError),
    "sliced": ("add", lambda: (f32(2, 4), f32(2, 4), f32(2, 8)[:, ::2]), errors.ArgumentLayoutError),
    "expanded": ("add", lambda: (f32(1, 4).expand(2, 4), f32(2, 4), f32(2, 4)), errors.ArgumentLayoutError),
    "list": ("add", lambda: (f32(2, 4), [1.0], f32(2, 4)), errors.ArgumentTypeError),
    "long text": ("add", lambda: (f32(2, 4), "x" * 200, f32(2, 4)), errors.ArgumentTypeError),
    "tensors in a tuple": ("add", lambda: (f32(2, 4), (f32(2, 4),), f32(2, 4)), errors.ArgumentTypeError),
    "number for a tensor": ("add", lambda: (f32(2, 4), 3, f32(2, 4)), errors.ArgumentTypeError),
    "object": ("add", lambda: (f32(2, 4), object(), f32(2, 4)), errors.ArgumentTypeError),
    "None": ("add", lambda: (f32(2, 4), None, f32(2, 4)), errors.MissingArgumentError),
    "meta device": (
        "add",
        lambda: (f32(2, 4), torch.empty(2, 4, device="meta"), f32(2, 4)),
        errors.ArgumentDeviceError,
    ),
    "nested": ("add", lambda: (f32(2, 4), nested(), f32(2, 4)), errors.ArgumentLayoutError),
    "fake": ("add", lambda: (f32(2, 4), fake(2, 4), f32(2, 4)), errors.ArgumentLayoutError),
    "sparse": ("add", lambda: (f32(2, 4), f32(2, 4).to_sparse(), f32(2, 4)), errors.ArgumentLayoutError),
    "inner stride": ("strided", lambda: (f32(2, 8)[:, ::2], torch.zeros(2, 8)[:, :4]), errors.ArgumentLayoutError),
    "constant stride": ("strided", lambda: (f32(2, 4), torch.zeros(2, 4)), errors.ArgumentLayoutError),
    "int8 above": ("scalars", lambda: (torch.zeros(5).double(), 128, 0, 0, 0.0, True), errors.ArgumentValueError),
    "int8 below": ("scalars", lambda: (torch.zeros(5).double(), -129, 0, 0, 0.0, True), errors.ArgumentValueError),
    "uint32 negative": ("scalars", lambda: (torch.zeros(5).double(), 0, -1, 0, 0.0, True), errors.ArgumentValueError),
    "uint32 above": ("scalars", lambda: (torch.zeros(5).double(), 0, 1 << 32, 0, 0.0, True), errors.ArgumentValueError),
    "int64 above": ("scalars", lambda: (torch.zeros(5).double(), 0, 0, 1 << 63, 0.0, True), errors.ArgumentValueError),
    "float for an int": ("scalars", lambda: (torch.zeros(5).double(), 1.0, 0, 0, 0.0, True), errors.ArgumentTypeError),
    "text for a float": ("scalars", lambda: (torch.zeros(5).double(), 1, 0, 0, "1", True), errors.ArgumentTypeError),
    "tensor for a float": ("scalars", lambda: (f32(5).double(), 1, 0, 0, f32(), True), errors.ArgumentTypeError),
    "float for a bool": ("scalars", lambda: (torch.zeros(5).double(), 1, 0, 0, 0.0, 1.0), errors.ArgumentTypeError),
    "unused, wrong rank": ("optional", lambda: (f32(3), f32(3, 1), None, f32(3)), errors.ArgumentRankError),
    "unused, wrong extent": ("optional", lambda: (f32(3), f32(4), None, f32(3)), errors.ArgumentShapeError),
    "unused, wrong dtype": ("optional", lambda: (f32(3), f32(3).int(), None, f32(3)), errors.ArgumentDtypeError),
    "None that tells an extent": ("needed", lambda: (None, f32(8)), errors.MissingArgumentError),
    "derived extent": ("derived", lambda: (f32(8), f32(2), f32(4)), errors.ArgumentShapeError),
    "derived quotient": ("derived", lambda: (f32(9), f32(3), f32(4)), errors.ArgumentShapeError),
    "packed in 16 bits": (
        "packed",
        lambda: (torch.zeros(3, 4, dtype=torch.int16), f32(1).int()),
        errors.ArgumentDtypeError,
    ),
    "no dimension": ("whole", lambda: (f32(1).double(), f32(1).double()), errors.ArgumentRankError),
    "text for a pointer": ("pointer", lambda: ("x" * 100, f32(1).int()), errors.ArgumentTypeError),
    "argument for nothing": ("nothing", lambda: (1,), errors.ArgumentCountError),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_wrong_argument_is_refused_and_explained(built, case):
    name, make, expected = REFUSED[case]
    arguments = make()
    with pytest.raises((ArgumentRefused, RuntimeError, BufferError, OverflowError)):
        built[name](*arguments)
    if expected is errors.ArgumentCountError:
        return
    with pytest.raises(expected) as caught:
        check(SIGNATURES[name], dict(enumerate(arguments)), "cpu")
    assert isinstance(caught.value, errors.ArgumentError)
    assert name in str(caught.value)


def test_nothing_is_written_by_a_refused_call(built):
    for case, (name, make, _) in REFUSED.items():
        arguments = make()
        tensors = [a for a in arguments if type(a) is torch.Tensor and a.device.type == "cpu" and not a.is_sparse]
        tensors = [a for a in tensors if not a.is_nested]
        before = [tensor.clone() for tensor in tensors]
        with pytest.raises(Exception):  # noqa: B017, PT011 - which one is tested above
            built[name](*arguments)
        for tensor, saved in zip(tensors, before, strict=True):
            assert torch.equal(tensor, saved), case


ACCEPTED = {
    "plain": ("add", lambda: (f32(3, 4), f32(3, 4), f32(3, 4))),
    "no rows": ("add", lambda: (f32(0, 4), f32(0, 4), f32(0, 4))),
    "numpy": ("add", lambda: (f32(3, 4).numpy(), f32(3, 4).numpy(), f32(3, 4).numpy())),
    "mixed libraries": ("add", lambda: (tvm_ffi.from_dlpack(f32(3, 4)), f32(3, 4).numpy(), f32(3, 4))),
    "batch of 1, sliced": ("add", lambda: (f32(8, 4)[::8], f32(1, 4), f32(8, 4)[::8])),
    "batch of 1, expanded": ("add", lambda: (f32(1, 4).expand(1, 4), f32(1, 4), f32(1, 4))),
    "batch of 1, any stride": ("add", lambda: (f32(1, 4).as_strided((1, 4), (77, 1)), f32(1, 4), f32(1, 4))),
    "with an offset": ("add", lambda: (f32(5, 4)[1:4], f32(5, 4)[2:], f32(4, 4)[1:])),
    "requires grad": ("add", lambda: (f32(3, 4).requires_grad_(), f32(3, 4), f32(3, 4))),
    "a parameter": ("add", lambda: (torch.nn.Parameter(f32(3, 4)), f32(3, 4), f32(3, 4))),
    "rows apart": ("strided", lambda: (f32(3, 9)[:, :4], torch.zeros(3, 8)[:, :4])),
    "row repeated": ("strided", lambda: (f32(1, 4).expand(3, 4), torch.zeros(3, 8)[:, :4])),
    "one row, strides ignored": ("strided", lambda: (f32(1, 4), torch.zeros(1, 4))),
    "no rows, strides ignored": ("strided", lambda: (f32(0, 4), torch.zeros(0, 4))),
    "scalars": ("scalars", lambda: (torch.zeros(5).double(), -128, 2**32 - 1, -(2**63), 1.5, True)),
    "numpy scalars": (
        "scalars",
        lambda: (torch.zeros(5).double(), np.int8(-3), np.uint32(7), np.int64(1), np.float32(2), 0),
    ),
    "bool for a number": ("scalars", lambda: (torch.zeros(5).double(), True, True, True, True, True)),
    "unused left out": ("optional", lambda: (f32(3), None, None, f32(3))),
    "unused given": ("optional", lambda: (f32(3), f32(3), torch.zeros(5, 2, dtype=torch.int8), f32(3))),
    "derived": ("derived", lambda: (f32(9), f32(2), f32(4))),
    "packed": ("packed", lambda: (torch.zeros(3, 4, dtype=torch.int8), f32(1).int())),
    "packed unsigned": ("packed", lambda: (torch.zeros(3, 4, dtype=torch.uint8), f32(1).int())),
    "wide": ("wide", lambda: (torch.zeros(5, dtype=torch.int8), f32(1).long())),
    "whole": ("whole", lambda: (torch.tensor(2.5, dtype=torch.float64), f32(1).double())),
    "null pointer": ("pointer", lambda: (None, f32(1).int())),
    "address": ("pointer", lambda: (f32(1).data_ptr(), f32(1).int())),
    "tensor as a pointer": ("pointer", lambda: (f32(1), f32(1).int())),
    "opaque pointer": ("pointer", lambda: (ctypes.c_void_p(8), f32(1).int())),
    "nothing": ("nothing", tuple),
}


@pytest.mark.parametrize("case", ACCEPTED)
def test_a_right_argument_is_accepted(built, case):
    name, make = ACCEPTED[case]
    arguments = make()
    assert built[name](*arguments) is None
    if not any(isinstance(argument, ctypes.c_void_p) for argument in arguments):
        check(SIGNATURES[name], dict(enumerate(arguments)), "cpu")


def test_results(built):
    a, b, c = f32(3, 4), f32(3, 4) * 2, torch.full((3, 4), float("nan"))
    built["add"](a, b, c)
    assert torch.equal(c, a + b)
    wide, out = f32(3, 9), torch.full((3, 8), -1.0)
    built["strided"](wide[:, :4], out[:, :4])
    assert torch.equal(out[:, :4], wide[:, :4])
    assert (out[:, 4:] == -1).all()
    numbers = torch.zeros(5, dtype=torch.float64)
    built["scalars"](numbers, -128, 2**32 - 1, -(2**53), 1.5, True)
    assert numbers.tolist() == [-128, 2**32 - 1, -(2**53), 1.5, 1]
    n = torch.zeros(1, dtype=torch.int32)
    built["packed"](torch.zeros(3, 5, dtype=torch.int8), n)
    assert n.item() == 10
    built["pointer"](None, n)
    assert n.item() == 1
    built["pointer"](f32(1), n)
    assert n.item() == 0


def test_bfloat16_scalar(built):
    a = torch.randn(100).bfloat16()
    out = torch.zeros(100).bfloat16()
    built["bfloats"](a, 1.5, out)
    assert torch.equal(out, a * torch.tensor(1.5).bfloat16())


def test_an_extent_above_int32_is_refused_and_one_of_int64_is_not(built):
    huge = torch.empty((2**31 + 64,), dtype=torch.int8)
    out = torch.zeros(1, dtype=torch.int64)
    built["wide"](huge, out)
    assert out.item() == 2**31 + 64
    rows = torch.empty(1, dtype=torch.float32).expand(2**31, 1)[:, :1]
    assert rows.shape == (2**31, 1)
    signature = SIGNATURES["optional"]
    fake = torch.empty(1).as_strided((2**31 + 7,), (0,))
    with pytest.raises(errors.ArgumentShapeError, match="does not fit the symbol `n` of type int32"):
        check(signature, {0: fake, 1: None, 2: None, 3: f32(3)}, "cpu")
    with pytest.raises(ArgumentRefused):
        built["optional"](fake, None, None, f32(3))


def test_a_misaligned_address_is_refused(built):
    raw = np.zeros(4 * 4 * 4 + 1, dtype=np.uint8)
    odd = raw[1:].view(np.float32).reshape(4, 4)
    good = np.zeros((4, 4), dtype=np.float32)
    with pytest.raises(ArgumentRefused):
        built["add"](odd, good, good)
    with pytest.raises(errors.ArgumentLayoutError, match="multiple of 4 bytes"):
        check(SIGNATURES["add"], {0: odd, 1: good, 2: good}, "cpu")


def test_another_device_is_refused():
    elsewhere = native.build(native.add, device_type=2)["add"]
    with pytest.raises(ArgumentRefused):
        elsewhere(f32(2, 4), f32(2, 4), f32(2, 4))
    with pytest.raises(errors.ArgumentDeviceError, match="expected a tensor on elsewhere, got one on cpu"):
        check(SIGNATURES["add"], dict(enumerate((f32(2, 4), f32(2, 4), f32(2, 4)))), "elsewhere")


def test_tensors_of_a_call_share_a_device():
    arguments = {0: f32(2, 4), 1: torch.empty(2, 4, device="meta"), 2: f32(2, 4)}
    with pytest.raises(errors.ArgumentDeviceError, match="it is on meta, but `A` is on cpu"):
        check(SIGNATURES["add"], arguments)


def rows(a, b, c):
    return lambda: (f32(*a), f32(*b), f32(*c))


MESSAGES = {
    "dimensions": (
        "add",
        rows((2, 4), (8,), (2, 4)),
        r"argument 1 \(`B`\) of add: expected 2 dimensions \[n, 4\], got 1 dimensions \[8\]",
    ),
    "constant": ("add", rows((2, 5), (2, 4), (2, 4)), r"`A`.*dimension 1 is 5, expected 4 \(shape \[2, 5\]\)"),
    "other argument": (
        "add",
        rows((2, 4), (3, 4), (2, 4)),
        r"`B`.*is 3, expected 2 \(`n` = 2 from dimension 0 of `A`\)",
    ),
    "expression": (
        "derived",
        rows((8,), (2,), (4,)),
        r"`A`.*is 8, expected 9 \(.*n.*with `n` = 4 from dimension 0 of `C`",
    ),
    "dtype": (
        "add",
        lambda: (f32(2, 4).half(), f32(2, 4), f32(2, 4)),
        r"`A`.*expected dtype float32, got float16",
    ),
    "layout": (
        "add",
        lambda: (f32(4, 4).T, f32(4, 4), f32(4, 4)),
        r"expected a contiguous tensor, got strides \[1, 4\] for shape \[4, 4\]",
    ),
    "range": (
        "scalars",
        lambda: (torch.zeros(5).double(), 300, 0, 0, 0.0, True),
        r"`i8`.*300 does not fit int8, whose range is -128 to 127",
    ),
    "signature": (
        "add",
        lambda: (f32(2, 4), None, f32(2, 4)),
        r"add\(A: float32\[n, 4\], B: float32\[n, 4\], C: float32\[n, 4\]\)",
    ),
}


@pytest.mark.parametrize("case", MESSAGES)
def test_messages_name_argument_expectation_and_what_was_given(case):
    name, make, pattern = MESSAGES[case]
    with pytest.raises(errors.ArgumentError, match=pattern):
        check(SIGNATURES[name], dict(enumerate(make())), "cpu")


tensors = st.builds(
    lambda shape, dtype, kind: {
        "plain": lambda t: t,
        "transposed": lambda t: t.mT.contiguous().mT if t.ndim > 1 else t,
        "sliced": lambda t: torch.cat([t, t], -1)[..., ::2] if t.ndim else t,
        "numpy": lambda t: t.numpy(),
    }[kind](torch.zeros(shape, dtype=dtype)),
    st.one_of(
        st.tuples(st.integers(0, 3), st.integers(3, 4)),
        st.tuples(st.integers(0, 3)),
        st.tuples(st.integers(1, 2), st.just(4), st.just(1)),
    ),
    st.sampled_from([torch.float32, torch.float32, torch.float32, torch.int32, torch.float64, torch.int8]),
    st.sampled_from(["plain", "plain", "transposed", "sliced", "numpy"]),
)
anything = st.one_of(tensors, tensors, tensors, st.none(), st.integers(-(2**33), 2**33), st.floats(), st.just([1]))


@settings(max_examples=1500, deadline=None)
@given(st.sampled_from(["add", "strided", "optional", "derived"]), st.lists(anything, min_size=4, max_size=4))
def test_entry_and_explanation_agree(built, name, values):
    arguments = values[: len(SIGNATURES[name].params)]
    try:
        check(SIGNATURES[name], dict(enumerate(arguments)), "cpu")
    except errors.ArgumentError:
        with pytest.raises(ArgumentRefused):
            built[name](*arguments)
    else:
        built[name](*arguments)
