import pytest
import tilelang
import tilelang.language as T
import tilelang.testing
import torch
from tilelang.utils.tensor import torch_assert_close

tilelang.testing.set_random_seed(0)


@tilelang.jit(out_idx=-1)
def reduce_rows(M, N, op, dtype="float32"):
    reducer = {"sum": T.reduce_sum, "max": T.reduce_max, "min": T.reduce_min}[op]

    @T.prim_func
    def main(A: T.Tensor((M, N), dtype), B: T.Tensor((M,), dtype)):
        with T.Kernel(1, threads=32) as _:
            tile = T.alloc_fragment((M, N), dtype)
            out = T.alloc_fragment((M,), dtype)
            T.copy(A, tile)
            reducer(tile, out, dim=1)
            T.copy(out, B)

    return main


def run_reduce(M, N, op):
    a = torch.randn(M, N, device="cuda")
    expected = {"sum": a.sum(1), "max": a.amax(1), "min": a.amin(1)}[op]
    torch_assert_close(reduce_rows(M, N, op)(a), expected, rtol=1e-3, atol=1e-3)


@tilelang.testing.requires_cuda
@pytest.mark.parametrize("op", ["sum", "max", "min"])
def test_reduce(op):
    run_reduce(16, 32, op)
    run_reduce(7, 48, op)


@tilelang.testing.requires_cuda_compute_version(1, 0)
def test_needs_a_version():
    run_reduce(4, 8, "sum")


@tilelang.testing.requires_cuda_compute_version_le(1, 0)
def test_needs_an_ancient_version():
    raise AssertionError("it must be skipped")


@tilelang.testing.requires_rocm
def test_needs_another_vendor():
    raise AssertionError("it must be skipped")


def test_a_wrong_result_is_found():
    with pytest.raises(AssertionError):
        torch_assert_close(torch.zeros(10), torch.ones(10))


if __name__ == "__main__":
    tilelang.testing.main()
