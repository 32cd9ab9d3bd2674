import os
import tempfile

import tilelang
import tilelang.language as T
import torch
from tilelang import tvm as tvm
from tilelang.jit import JITKernel
from tilelang.utils.tensor import TensorSupplyType, map_torch_type


def program(N, block, dtype="float32"):
    @T.prim_func
    def scale(A: T.Tensor((N,), dtype), B: T.Tensor((N,), dtype)):
        with T.Kernel(T.ceildiv(N, block), threads=128) as bx:
            for i in T.Parallel(block):
                B[bx * block + i] = A[bx * block + i] * 2

    return scale


def main(N=500):
    func = program(N, 128)
    assert isinstance(func, tvm.tirx.PrimFunc)
    kernel = tilelang.compile(func, out_idx=[1], execution_backend="auto", verbose=False)
    assert isinstance(kernel, JITKernel) and isinstance(kernel, tilelang.JITKernel)
    assert kernel.out_idx == [1]
    assert [tuple(param.shape) for param in kernel.params] == [(N,), (N,)]
    assert kernel.params[0].dtype == T.float32
    assert map_torch_type("float32") is torch.float32
    assert kernel.latency is None and kernel.config is None
    assert "scale" in kernel.get_kernel_source() or kernel.get_kernel_source()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "kernel.txt")
        kernel.export_sources(kernel_path=path)
        with open(path) as file:
            assert file.read() == kernel.kernel_source
    profiler = kernel.get_profiler(tensor_supply_type=TensorSupplyType.Normal)
    profiler.assert_allclose(lambda a: a * 2, atol=1e-6, rtol=1e-6)
    profiler.assert_consistent(repeat=3)
    assert profiler.do_bench(n_warmup=1, n_repeat=3, quantiles=[0.5])[0] > 0
    assert profiler.do_bench(n_warmup=1, n_repeat=3, return_mode="median", backend="wall") > 0
    kernels = tilelang.par_compile([program(N, block) for block in (64, 128, 256)], out_idx=-1, num_workers=2)
    x = torch.randn(N, device="cuda")
    assert all(torch.equal(each(x), x * 2) for each in kernels)
    out = torch.empty_like(x)
    plain = tilelang.compile(func)
    assert plain(x, out) == [] and torch.equal(out, x * 2)
    try:
        kernel(x, out)
    except ValueError as error:
        assert "argument" in str(error)
    else:
        raise AssertionError("two arguments were accepted")
    try:
        kernel(x.double())
    except (ValueError, RuntimeError):
        pass
    else:
        raise AssertionError("another dtype was accepted")


if __name__ == "__main__":
    main()
