"""Hashable stand-ins for compile-time arguments."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tile_core.errors import CompileTimeArgumentError
from tile_core.jit.freeze import freeze

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner) | st.tuples(inner, inner),
    max_leaves=8,
)


@given(values)
def test_a_frozen_value_is_hashable_and_stable(value):
    assert freeze(value) == freeze(value)
    hash(freeze(value))


@given(values, values)
def test_values_that_print_differently_freeze_differently(one, other):
    assert (freeze(one) == freeze(other)) == (repr(one) == repr(other))


@pytest.mark.parametrize("tensor", [torch.ones(2), np.ones(2)])
def test_tensors_are_refused(tensor):
    with pytest.raises(CompileTimeArgumentError, match="compile-time"):
        freeze(tensor)


def test_dtypes_and_functions_are_values():
    assert freeze(torch.float32) == freeze(torch.float32)
    assert freeze(torch.float32) != freeze(torch.float16)
    assert freeze(len) == freeze(len)
