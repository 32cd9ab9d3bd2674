"""Kernels: calls, outputs, arguments of both libraries, sources, stages, report."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
import torch

import tile_core as tl
import tile_core.language as T
from tile_core import errors


def vectors(n):
    return torch.arange(float(n)), torch.full((n,), 2.0), torch.full((n,), float("nan"))


def test_a_call_writes_in_place_and_returns_none(fake, programs):
    a, b, c = vectors(5)
    assert tl.compile(programs.add(5))(a, b, c) is None
    assert torch.equal(c, a + b)


def test_numpy_in_place(fake, programs):
    a, b, c = (tensor.numpy() for tensor in vectors(5))
    tl.compile(programs.add(5))(a, b, c)
    np.testing.assert_array_equal(c, a + b)


@pytest.mark.parametrize("out_idx", [-1, 2, [2], (-1,), [-1]])
def test_one_output_is_returned_itself(fake, programs, out_idx):
    kernel = tl.compile(programs.add(5), out_idx=out_idx)
    a, b, _ = vectors(5)
    assert kernel.out_idx == (2,)
    assert torch.equal(kernel(a, b), a + b)


def test_several_outputs_are_a_list_in_the_order_asked(fake, programs):
    a, b, _ = vectors(5)
    total, difference = tl.compile(programs.both(5), out_idx=[-2, -1])(a, b)
    assert torch.equal(total, a + b)
    assert torch.equal(difference, a - b)
    swapped = tl.compile(programs.both(5), out_idx=[3, 2])(a, b)
    assert isinstance(swapped, list)
    assert torch.equal(swapped[0], difference)
    assert torch.equal(swapped[1], total)


def test_an_output_in_the_middle(fake, programs):
    a, b, difference = vectors(5)
    total = tl.compile(programs.both(5), out_idx=2)(a, b, difference)
    assert torch.equal(total, a + b)
    assert torch.equal(difference, a - b)


def test_outputs_follow_the_library_of_the_inputs(fake, programs):
    kernel = tl.compile(programs.add(5), out_idx=-1)
    a, b, _ = vectors(5)
    from_torch, from_numpy = kernel(a, b), kernel(a.numpy(), b.numpy())
    assert isinstance(from_torch, torch.Tensor)
    assert from_torch.dtype == torch.float32
    assert from_torch.is_contiguous()
    assert isinstance(from_numpy, np.ndarray)
    assert from_numpy.dtype == np.float32


def test_the_shape_of_an_output_is_solved_from_the_inputs(fake, programs):
    n = T.dynamic("n")
    kernel = tl.compile(programs.add(n), out_idx=-1)
    for size in (0, 1, 7, 64):
        a, b, _ = vectors(size)
        assert torch.equal(kernel(a, b), a + b)


def test_outputs_are_fresh(fake, programs):
    kernel = tl.compile(programs.add(5), out_idx=-1)
    a, b, _ = vectors(5)
    first, second = kernel(a, b), kernel(a, b)
    assert first.data_ptr() != second.data_ptr()


def test_no_autograd(fake, programs):
    a, b, _ = vectors(5)
    result = tl.compile(programs.add(5), out_idx=-1)(a.requires_grad_(), b)
    assert not result.requires_grad


@pytest.mark.parametrize("out_idx", [3, -4, [0, 7]])
def test_out_idx_out_of_range(fake, programs, out_idx):
    with pytest.raises(errors.OutIdxError, match=r"positions run from -3 to 2") as caught:
        tl.compile(programs.add(5), out_idx=out_idx)
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize(
    ("out_idx", "text"),
    [([2, -1], "twice"), ("2", "expected positions"), (1.0, "expected positions"), (True, "expected positions")],
)
def test_out_idx_of_another_form(fake, programs, out_idx, text):
    with pytest.raises(errors.OutIdxError, match=text):
        tl.compile(programs.add(5), out_idx=out_idx)


def test_out_idx_of_a_scalar(fake, programs):
    with pytest.raises(errors.OutIdxError, match="`factor`, which is not a tensor"):
        tl.compile(programs.scale(5), out_idx=1)


@pytest.mark.parametrize("out_idx", [0, [2, 1]])
def test_an_output_that_is_never_written(fake, programs, out_idx):
    with pytest.raises(errors.OutIdxError, match="`[AB]` is an output of add, which never writes it") as caught:
        tl.compile(programs.add(5), out_idx=out_idx)
    assert "`C` (position 2)" in caught.value.remedy


def test_an_output_whose_shape_nothing_tells(fake, programs):
    m, n = T.dynamic("m, n")

    @T.prim_func
    def none(A: T.Tensor((n,), "float32"), out: T.Tensor((m,), "float32")):
        with T.Kernel(1) as _:
            out[0] = A[0]

    with pytest.raises(errors.OutputShapeError, match="needs `m`, which no input tells"):
        tl.compile(none, out_idx=-1)


CALLS = {
    "too few": (lambda a, b, c: (a, b), errors.ArgumentCountError, "takes 3 arguments, 2 were given"),
    "too many": (lambda a, b, c: (a, b, c, c), errors.ArgumentCountError, "takes 3 arguments, 4 were given"),
    "shape": (lambda a, b, c: (a, b[:3], c), errors.ArgumentShapeError, "`B`.*is 3, expected 5"),
    "dtype": (lambda a, b, c: (a.double(), b, c), errors.ArgumentDtypeError, "`A`.*float32, got float64"),
    "rank": (lambda a, b, c: (a, b, c[None]), errors.ArgumentRankError, "`C`.*1 dimensions"),
    "not a tensor": (lambda a, b, c: (a, [1.0], c), errors.ArgumentTypeError, "`B`.*expected a tensor, got list"),
    "None": (lambda a, b, c: (a, None, c), errors.MissingArgumentError, "`B`"),
    "device": (lambda a, b, c: (a, b.to("meta"), c), errors.ArgumentDeviceError, "`B`.*on cpu, got one on meta"),
    "strides": (lambda a, b, c: (a, b.repeat(2)[::2], c), errors.ArgumentLayoutError, "`B`.*contiguous"),
}


@pytest.mark.parametrize("case", CALLS)
def test_wrong_arguments(fake, programs, case):
    make, kind, pattern = CALLS[case]
    a, b, c = vectors(5)
    with pytest.raises(kind, match=pattern) as caught:
        tl.compile(programs.add(5))(*make(a, b, c))
    assert caught.value.code.startswith("TILE-E07")
    assert c.isnan().all()


def test_wrong_inputs_of_a_kernel_with_outputs(fake, programs):
    n = T.dynamic("n")
    kernel = tl.compile(programs.add(n), out_idx=-1)
    with pytest.raises(errors.ArgumentTypeError, match="argument 0"):
        kernel([1.0], torch.ones(3))
    with pytest.raises(errors.ArgumentCountError, match="the call itself makes C"):
        kernel(torch.ones(3), torch.ones(3), torch.ones(3))


def test_keyword_arguments(fake, programs):
    a, b, c = vectors(5)
    with pytest.raises(errors.KeywordArgumentError, match="by position: A, B, C"):
        tl.compile(programs.add(5))(A=a, B=b, C=c)


def test_a_failing_body_is_not_called_again(fake, programs):
    kernel = tl.compile(programs.add(5, name="fail"))
    with pytest.raises(ValueError, match="the body failed"):
        kernel(*vectors(5))


def test_none_for_an_unused_tensor(fake, programs):
    kernel = tl.compile(programs.unused(5))
    a, b, c = vectors(5)
    kernel(a, None, c)
    kernel(a, b, c)
    with pytest.raises(errors.MissingArgumentError, match="`A`"):
        kernel(None, b, c)


def test_read_only_arrays(fake, programs):
    a, b, c = (tensor.numpy() for tensor in vectors(5))
    a.flags.writeable = c.flags.writeable = False
    kernel = tl.compile(programs.add(5))
    with pytest.raises(errors.ReadOnlyArgumentError, match="`C`.*read-only"):
        kernel(a, b, c)
    out = np.empty_like(c)
    kernel(a, b, out)
    np.testing.assert_array_equal(out, a + b)


@pytest.mark.parametrize("factor", [2, 2.5, np.float32(2.5), np.int64(3), ml_dtypes.bfloat16(1.5), True])
def test_scalars(fake, programs, factor):
    a, _, out = vectors(5)
    tl.compile(programs.scale(5))(a, factor, out)
    assert torch.equal(out, a * float(factor))


def test_a_number_that_no_float_reaches(fake, programs):
    a, _, out = vectors(5)
    kernel = tl.compile(programs.scale(5))
    kernel(a, 10**30, out)
    assert torch.equal(out, a * 1e30)
    with pytest.raises(errors.ArgumentValueError, match="beyond every value of float32"):
        kernel(a, 10**400, out)


def test_a_byte_order_that_is_not_the_machines(fake, programs):
    a, b, c = (tensor.numpy() for tensor in vectors(5))
    swapped = b.astype(b.dtype.newbyteorder())
    with pytest.raises(errors.ArgumentDtypeError, match=r"`B`.*expected dtype float32, got [<>]f4"):
        tl.compile(programs.add(5))(a, swapped, c)


@pytest.mark.parametrize("factor", ["2", None, [2.0], torch.tensor(2.0)])
def test_what_is_no_scalar(fake, programs, factor):
    a, _, out = vectors(5)
    with pytest.raises(errors.ArgumentTypeError, match="`factor`.*number of dtype float32"):
        tl.compile(programs.scale(5))(a, factor, out)


def test_params(fake, programs):
    kernel = tl.compile(programs.scale(T.dynamic("n")))
    assert [(p.name, p.dtype, p.shape) for p in kernel.params] == [
        ("A", "float32", ("n",)),
        ("factor", "float32", ()),
        ("out", "float32", ("n",)),
    ]


def test_sources(fake, programs, tmp_path, capsys):
    kernel = tl.compile(programs.add(5))
    assert kernel.kernel_source == kernel.get_kernel_source() == "// add\n"
    assert kernel.host_source == kernel.get_host_source() == "# host add\n"
    assert kernel.get_kernel_source(kernel_only=False) == "# host add\n\n// add\n"
    kernel.show_source("both")
    assert capsys.readouterr().out == "# host add\n\n// add\n\n"
    kernel.export_sources(tmp_path / "k.c", tmp_path / "h.c")
    assert (tmp_path / "k.c").read_text() == "// add\n"
    assert (tmp_path / "h.c").read_text() == "# host add\n"
    with pytest.raises(errors.ExportError):
        kernel.export_sources()
    with pytest.raises(errors.ExportError, match="no source 'device'"):
        kernel.show_source("device")


def test_stages(fake, programs):
    kernel = tl.compile(programs.add(5))
    assert kernel.stages[0] == "program"
    assert "thread_binding" in kernel.ir("program")
    texts = {stage: kernel.ir(stage) for stage in kernel.stages}
    assert all("def add" in text for text in texts.values())
    assert kernel.ir() == texts[kernel.stages[-1]]
    with pytest.raises(errors.UnknownStageError, match="no stage 'polish'"):
        kernel.ir("polish")
    assert fake.compiled == ["add"]


def test_report(fake, programs):
    report = tl.compile(programs.add(5)).report()
    assert report["shared_bytes"] == 0
    assert dict(report)["vector_widths"] == {"A": 4}
    assert "shared_bytes" in str(report)


def test_a_program_that_returns_its_outputs(fake):
    @T.prim_func
    def add(A: T.Tensor((5,), "float32"), B: T.Tensor((5,), "float32")):
        C = T.empty((5,), "float32")
        with T.Kernel(1) as _:
            for i in T.serial(5):
                C[i] = A[i] + B[i]
        return C

    a, b, _ = vectors(5)
    assert torch.equal(tl.compile(add)(a, b), a + b)
    with pytest.raises(errors.OutIdxError, match=r"T\.empty"):
        tl.compile(add, out_idx=-1)
