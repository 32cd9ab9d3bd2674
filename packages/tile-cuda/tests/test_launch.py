"""Launches: clusters, overlap, bounds, source text, and what a refused one says."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tile_core as tl
import tile_cuda.language as T
from tile_core.errors import (
    AnnotationError,
    EmulatedBarrierError,
    EmulatedDeadlockError,
    EmulatedRaceError,
    KernelKeywordError,
    KernelLaunchError,
    LaunchQueryError,
    LaunchShapeError,
    NoReferenceMeaningError,
    OpArgumentError,
    SharedMemoryLimitError,
    UnsupportedOnTargetError,
)
from tile_cuda import attributes, nvrtc, runtime, spare
from tile_cuda.errors import ToolchainArchitectureError
from tile_cuda.settings import settings

N = 64
HOPPER = {"kind": "cuda", "arch": "sm_90"}
CHECKED: Any = {"target": HOPPER, "execution": "emulate", "pass_configs": {"tile.emulate_check": True}}


def exchange(dims: Any, grid: Any, sync: Any) -> Any:
    """Each block hands its row to the other one of its pair."""

    @T.prim_func
    def kernel(A: T.Tensor((8, N), "int32"), B: T.Tensor((8, N), "int32"), C: T.Tensor((8, N), "int32")):
        with T.ClusterKernel(*grid, threads=N, cluster_dims=dims):
            t = T.get_thread_binding()
            block = T.get_block_binding(1) * grid[0] + T.get_block_binding(0)
            rank = T.block_rank_in_cluster()
            tile = T.alloc_shared((N,), "int32")
            tile[t] = A[block, t]
            B[block, t] = tile[N - 1 - t] + rank * 1000
            sync()
            C[block, t] = B[block - rank + (T.get_cluster_size() - 1 - rank), t] + tile[t]

    return kernel


def both_halves() -> None:
    T.cluster_arrive()
    T.cluster_wait()


@pytest.mark.emulate
@pytest.mark.parametrize("sync", [T.cluster_sync, both_halves])
@pytest.mark.parametrize(("dims", "grid"), [(2, (8,)), (4, (8,)), ((8, 1), (8, 1)), (1, (8,))])
def test_blocks_of_a_cluster_run_together(dims: Any, grid: Any, sync: Any, on_gpu: Any) -> None:
    size = dims if isinstance(dims, int) else dims[0] * dims[1]
    a = np.arange(8 * N, dtype="int32").reshape(8, N)
    b, c = np.zeros((2, 8, N), "int32")
    tl.compile(exchange(dims, grid, sync), **CHECKED)(a, b, c)
    rank = np.arange(8) % size
    written = a[:, ::-1] + rank[:, None] * 1000
    np.testing.assert_array_equal(b, written)
    np.testing.assert_array_equal(c, written[np.arange(8) - rank + size - 1 - rank] + a)
    native = on_gpu(exchange(dims, grid, sync), a, *np.zeros((2, 8, N), "int32"))
    np.testing.assert_array_equal(c if native is None else native[2], c)


@pytest.mark.emulate
def test_the_rank_counts_x_first(agree: Any) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((4, 2, 2), "int32")):
        with T.Kernel(4, 2, 2, threads=32, cluster_dims=(2, 2, 2)) as (x, y, z):
            A[x, y, z] = T.block_rank_in_cluster()

    (found,) = agree(kernel, np.full((4, 2, 2), -1, "int32"))
    expected = np.fromfunction(lambda x, y, z: x % 2 + y * 2 + z * 4, (4, 2, 2))
    np.testing.assert_array_equal(found, expected)


@pytest.mark.emulate
@pytest.mark.parametrize("sync", [lambda: None, lambda: (T.cluster_arrive_relaxed(), T.cluster_wait())])
def test_without_an_ordering_barrier_the_blocks_race(sync: Any) -> None:
    a, b, c = np.zeros((3, 8, N), "int32")
    a += np.arange(N, dtype="int32") + 1
    with pytest.raises(EmulatedRaceError):
        tl.compile(exchange(2, (8,), sync), **CHECKED)(a, b, c)


def one_block(body: Any, **options: Any) -> Any:
    @T.prim_func
    def kernel(A: T.Tensor((N,), "float32")):
        with T.Kernel(2, threads=N, **options) as bx:
            body(A, bx, T.get_thread_binding())

    return kernel


@pytest.mark.emulate
def test_a_cluster_barrier_that_is_misused_is_an_error() -> None:
    def never(A: Any, bx: Any, t: Any) -> None:
        T.cluster_wait()

    def twice(A: Any, bx: Any, t: Any) -> None:
        T.cluster_arrive()
        T.cluster_arrive()

    def unequal(A: Any, bx: Any, t: Any) -> None:
        T.cluster_arrive()
        T.cluster_wait()
        T.cluster_arrive()
        T.sync_threads()
        T.cluster_wait()

    a = np.zeros(N, "float32")
    for body, words in ((never, "without having arrived"), (twice, "arrives twice")):
        with pytest.raises(EmulatedBarrierError, match=words):
            tl.compile(one_block(body, cluster_dims=2), target=HOPPER, execution="emulate")(a)
    tl.compile(one_block(unequal, cluster_dims=2), target=HOPPER, execution="emulate")(a)

    @T.prim_func
    def stuck(A: T.Tensor((N,), "float32")):
        with T.Kernel(2, threads=N, cluster_dims=2) as bx:
            t = T.get_thread_binding()
            T.cluster_arrive()
            if t + bx * N < 5:
                T.named_barrier_arrive(1, 32)
            T.sync_threads(2, 64)
            if t < 32:
                T.sync_threads(3, 64)
            T.cluster_wait()

    with pytest.raises(EmulatedDeadlockError, match="a named barrier"):
        tl.compile(stuck, target=HOPPER, execution="emulate")(a)


def test_clusters_have_no_meaning_where_blocks_run_in_turn() -> None:
    with pytest.raises(NoReferenceMeaningError, match="cluster_sync"):
        tl.compile(exchange(2, (8,), T.cluster_sync), target="interpret")


@pytest.mark.parametrize(
    ("grid", "words"), [((2**31,), "along x"), ((1, 2**16), "65536 blocks along y"), ((1, 1, 2**16), "along z")]
)
def test_grids_that_no_device_has(grid: tuple[int, ...], words: str) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((64,), "float32")):
        with T.Kernel(*grid, threads=64):
            for i in T.Parallel(64):
                A[i] = 1.0

    with pytest.raises(LaunchShapeError, match=words):
        tl.compile(kernel, target=HOPPER)


@pytest.mark.parametrize(
    ("options", "arch", "error", "words"),
    [
        ({"cluster_dims": 2}, "sm_80", UnsupportedOnTargetError, "no clusters of blocks"),
        ({"cluster_dims": 16}, "sm_90", LaunchShapeError, "16 blocks"),
        ({"cluster_dims": 4}, "sm_90", LaunchShapeError, "2 blocks along x"),
        ({"cluster_dims": (1, 2)}, "sm_90", LaunchShapeError, "1 blocks along y"),
    ],
)
def test_clusters_that_cannot_be(options: Any, arch: str, error: Any, words: str) -> None:
    kernel = one_block(lambda A, bx, t: None, **options)
    with pytest.raises(error, match=words):
        tl.compile(kernel, target={"kind": "cuda", "arch": arch}, execution="emulate")


def test_launch_instructions_need_their_hardware() -> None:
    for body, words in ((T.pdl_sync, "launches that overlap"), (T.cluster_sync, "clusters")):
        kernel = one_block(lambda A, bx, t, body=body: body())
        with pytest.raises(UnsupportedOnTargetError, match=words):
            tl.compile(kernel, target={"kind": "cuda", "arch": "sm_80"}, execution="emulate")
    for body in (lambda A, bx, t: T.sync_threads(1, 40), lambda A, bx, t: T.sync_threads(1, 96)):
        with pytest.raises(OpArgumentError, match="whole warps"):
            tl.compile(one_block(body), target="cuda", execution="emulate")
    with pytest.raises(KernelKeywordError, match="cluster_dims"):
        T.ClusterKernel(4, threads=32)


@pytest.mark.emulate
def test_launches_that_overlap_change_no_result(agree: Any) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((N,), "float32"), B: T.Tensor((N,), "float32")):
        with T.Kernel(1, threads=N):
            B[T.get_thread_binding()] = A[T.get_thread_binding()] * 2
            T.pdl_trigger()
        with T.Kernel(1, threads=N):
            T.pdl_sync()
            A[T.get_thread_binding()] = B[T.get_thread_binding()] + 1

    a, _b = agree(kernel, np.arange(N, dtype="float32"), np.zeros(N, "float32"))
    np.testing.assert_array_equal(a, np.arange(N) * 2 + 1)


@pytest.mark.compile
def test_launches_compile(build: Any) -> None:
    newer = ("sm_90", "sm_100")
    assert "barrier.cluster.arrive.release" in build(exchange(2, (8,), T.cluster_sync), newer)
    assert "barrier.cluster.wait" in build(exchange(2, (8,), both_halves), newer)

    def everything(A: Any, bx: Any, t: Any) -> None:
        T.annotate_min_blocks_per_sm(3)
        T.annotate_l2_hit_ratio({A: 0.5})
        T.pdl_sync()
        A[t] = A[t] + 1
        T.cluster_arrive_relaxed()
        T.cluster_wait()
        T.pdl_trigger()

    kernel = tl.compile(one_block(everything, cluster_dims=2), target=HOPPER)
    source = kernel.get_kernel_source()
    assert f"__launch_bounds__({N}, 3)" in source
    assert "griddepcontrol.wait;" in source
    described = kernel.artifact.report["kernels"][0]["attributes"]
    assert described == {
        "cluster": [2, 1, 1],
        "overlaps": True,
        "window": {"parameter": 0, "bytes": 4 * N, "ratio": 0.5},
    }
    made, parameter = attributes.made(described, 100)
    assert [one.id for one in made] == [1, 4, 6]
    assert (made[0].value.window.bytes, made[0].value.window.ratio, parameter) == (100, 0.5, 0)
    assert list(made[1].value.cluster) == [2, 1, 1]
    assert ctypes.sizeof(attributes.Attribute) == 72
    assert len(attributes.made(described, 0)[0]) == 2


def test_annotations_that_do_not_fit() -> None:
    for body in (
        lambda A, bx, t: T.annotate_min_blocks_per_sm(0),
        lambda A, bx, t: T.annotate_l2_hit_ratio({A: 1.5}),
        lambda A, bx, t: T.annotate_l2_hit_ratio({T.alloc_shared((4,), "float32"): 0.5}),
        lambda A, bx, t: [T.annotate_l2_hit_ratio({A: 0.5}) for _ in range(2)],
    ):
        with pytest.raises(AnnotationError):
            one_block(body)


TWICE = "__device__ __forceinline__ float twice(float x) { return x + x; }\n"
STORE = "__device__ void put(float* at, float value) { *at = value; }"


def with_source(import_it: bool) -> Any:
    @T.prim_func
    def kernel(A: T.Tensor((N,), "float32"), B: T.Tensor((N,), "float32")):
        with T.Kernel(1, threads=N, prelude=None if import_it else TWICE + STORE):
            if import_it:
                T.import_source(TWICE)
                T.import_source(TWICE)
                T.import_source(STORE)
            t = T.get_thread_binding()
            T.call_extern("void", "put", T.address_of(B[t]), T.call_pure_extern("float32", "twice", A[t]))

    return kernel


@pytest.mark.emulate
@pytest.mark.parametrize("import_it", [True, False])
def test_source_text_before_a_kernel(import_it: bool, on_gpu: Any) -> None:
    a, b = np.arange(N, dtype="float32"), np.zeros(N, "float32")
    compiled = tl.compile(with_source(import_it), target="cuda", execution="emulate")
    compiled(a, b)
    np.testing.assert_array_equal(b, 2 * a)
    assert compiled.get_kernel_source().count("float twice(") == 1
    native = on_gpu(with_source(import_it), a, np.zeros(N, "float32"))
    np.testing.assert_array_equal(b if native is None else native[1], b)
    with pytest.raises(NoReferenceMeaningError, match="call_extern"):
        tl.compile(with_source(import_it), target="interpret")


SOURCE = """
template <typename T> __device__ T scaled(T x, int factor) { return x * factor; }
// A comment that says __global__ void other(int).
__global__ void __launch_bounds__(64) reversed(const float* A, float* B, int factor) {
  __shared__ float tile[64];
  tile[threadIdx.x] = A[blockIdx.x * 64 + threadIdx.x];
  __syncthreads();
  B[blockIdx.x * 64 + threadIdx.x] = scaled(tile[63 - threadIdx.x], factor);
}
"""


def from_source(source: Any, entry: str = "main_kernel") -> Any:
    @T.prim_func
    def kernel(A: T.Tensor((2, 64), "float32"), B: T.Tensor((2, 64), "float32"), factor: T.int32):
        T.CUDASourceCodeKernel(2, threads=64, source_code_or_path=source, entry_name=entry)

    return kernel


@pytest.mark.emulate
def test_a_kernel_of_source_text(tmp_path: Path, on_gpu: Any) -> None:
    path = tmp_path / "kernel.cu"
    path.write_text(SOURCE, "utf-8")
    for source, entry in (
        (SOURCE, "reversed"),
        (SOURCE, "main_kernel"),
        (path, "reversed"),
        (str(path), "main_kernel"),
    ):
        a, b = np.arange(128, dtype="float32").reshape(2, 64), np.zeros((2, 64), "float32")
        tl.compile(from_source(source, entry), target="cuda", execution="emulate")(a, b, 3)
        np.testing.assert_array_equal(b, 3 * a[:, ::-1])
        native = on_gpu(from_source(source, entry), a, np.zeros((2, 64), "float32"), 3)
        np.testing.assert_array_equal(b if native is None else native[1], b)


@pytest.mark.compile
def test_kernels_with_source_text_compile(build: Any) -> None:
    build(with_source(import_it=True))
    build(from_source(SOURCE))
    kernel = tl.compile(from_source(SOURCE), target="cuda")
    # The name in the cubin is mangled: the text does not say extern "C".
    assert kernel.artifact.report["kernels"][0]["name"].startswith("_Z8reversed")


def test_source_that_is_not_there() -> None:
    for source, entry, words in (
        ("no/such/file.cu", "k", "no file"),
        (SOURCE, "other", "it has reversed"),
        (3, "k", "is no text"),
    ):
        with pytest.raises(OpArgumentError) as raised:
            from_source(source, entry)
        assert words in f"{raised.value.message} {raised.value.remedy}"
    with pytest.raises(NoReferenceMeaningError):
        tl.compile(from_source(SOURCE), target="interpret")
    with pytest.raises(LaunchQueryError):

        @T.prim_func
        def kernel(A: T.Tensor((4,), "float32")):
            T.import_source("int x;")


class Config(ctypes.Structure):
    """`CUlaunchConfig`."""

    _fields_ = (
        ("sizes", ctypes.c_uint * 6),
        ("shared", ctypes.c_uint),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.POINTER(attributes.Attribute)),
        ("count", ctypes.c_uint),
    )


class Driver:
    """A CUDA driver that launches nothing: it notes what it is asked for and answers with `status`."""

    def __init__(self) -> None:
        self.status = 0
        self.launches: list[dict[str, Any]] = []
        integer, pointer = ctypes.c_int, ctypes.c_void_p
        simple, launch = ctypes.CFUNCTYPE(integer, pointer), [pointer, *[ctypes.c_uint] * 7, pointer, pointer, pointer]
        self.cuCtxGetCurrent = simple(lambda _context: 0)
        self.cuCtxPushCurrent_v2 = simple(lambda _context: 0)
        self.cuCtxPopCurrent_v2 = simple(lambda _context: 0)
        self.cuLaunchKernel = ctypes.CFUNCTYPE(integer, *launch)(self._launch)
        self.cuLaunchKernelEx = ctypes.CFUNCTYPE(integer, ctypes.POINTER(Config), pointer, pointer, pointer)(self._ex)
        self.loaded: list[bytes] = []
        self.cuDevicePrimaryCtxRetain = self.cuFuncSetAttribute = lambda *_arguments: 0
        self.cuModuleLoadData = lambda _module, content: self.loaded.append(content) or 0
        self.cuModuleGetFunction = lambda function, *_arguments: setattr(function._obj, "value", 1) or 0
        self.cuGetErrorName = lambda status, text: setattr(text._obj, "value", b"CUDA_ERROR_INVALID_VALUE")
        self.cuGetErrorString = lambda status, text: setattr(text._obj, "value", b"invalid argument")

    def _launch(self, _function: Any, *arguments: Any) -> int:
        self.launches.append({"sizes": list(arguments[:6]), "attributes": []})
        return self.status

    def _ex(self, config: Any, _function: Any, _parameters: Any, _extra: Any) -> int:
        told = config.contents
        self.launches.append(
            {"sizes": list(told.sizes), "attributes": [told.attributes[at].id for at in range(told.count)]}
        )
        return self.status


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Driver]:
    pytest.importorskip("nvidia.cu13", reason="NVRTC is not installed")
    found, explanations = Driver(), list(KernelLaunchError.explanations)
    monkeypatch.setattr(runtime, "_driver", lambda: found)
    yield found
    KernelLaunchError.explanations[:] = explanations


def sized(body: Any, **options: Any) -> Any:
    @T.prim_func
    def kernel(n: T.int32):
        with T.Kernel(n, 3, threads=(32, 2), **options) as (_bx, _by):
            body()

    return kernel


@pytest.mark.compile
def test_a_refused_launch_names_kernel_grid_and_block(driver: Driver) -> None:
    kernel = tl.compile(sized(T.sync_warp), target=HOPPER)
    entry = runtime._Module(kernel.artifact, kernel.request).entry()
    entry(70_000)
    driver.status = 1
    with pytest.raises(KernelLaunchError) as raised:
        entry(70_000)
    for words in ("kernel_kernel", "grid (70000, 3, 1)", "block (32, 2, 1)", "0 bytes", "CUDA_ERROR_INVALID_VALUE"):
        assert words in raised.value.message
    assert [launch["sizes"] for launch in driver.launches] == [[70_000, 3, 1, 32, 2, 1]] * 2
    error = kernel.caller.located(KernelLaunchError("no"), (np.zeros((3, 4), "int8"),))
    assert "n int8 (3, 4)" in error.message


@pytest.mark.compile
def test_attributes_reach_the_driver(driver: Driver) -> None:
    kernel = tl.compile(sized(T.pdl_sync, cluster_dims=2), target=HOPPER)
    entry = runtime._Module(kernel.artifact, kernel.request).entry()
    entry(4)
    assert driver.launches == [{"sizes": [4, 3, 1, 32, 2, 1], "attributes": [4, 6]}]
    driver.status = 1
    with pytest.raises(KernelLaunchError, match=r"cluster \(2, 1, 1\)"):
        entry(5)


@pytest.mark.compile
def test_a_spare_kernel_is_compiled_at_its_first_call_and_kept(
    driver: Driver, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TILE_CACHE_DIR", str(tmp_path))
    made = tl.compile(halves(), target=HOPPER)
    report = made.artifact.report["kernels"]
    assert [kernel["file"] for kernel in report] == ["kernel_0.cubin", "kernel_1.cu"]
    assert "registers" not in report[1]
    for first in (True, False):
        module = runtime._Module(made.artifact, made.request)
        driver.loaded.clear()
        with monkeypatch.context() as patched:
            if not first:
                patched.setitem(spare.COMPILERS, "nvrtc", None)  # the disk cache has it
            assert module._load_on(0, 0) == 0
            assert driver.loaded == [made.artifact.files["kernel_0.cubin"]]
            assert module._load_on(0, 1) == 0
            assert driver.loaded[1].startswith(b"\x7fELF")
            assert module._load_on(1, 1) == 0
        assert driver.loaded[2:] == driver.loaded[:2]
    with settings.override(eager=True):
        eager = tl.compile(halves(), target=HOPPER).artifact.report["kernels"]
    assert [kernel["file"] for kernel in eager] == ["kernel_0.cubin", "kernel_1.cubin"]


def halves() -> Any:
    @T.prim_func
    def kernel(A: T.Tensor((4096,), "float16"), B: T.Tensor((4096,), "float16")):
        with T.Kernel(4, threads=128) as bx:
            for i in T.Parallel(1024):
                B[bx * 1024 + i] = A[bx * 1024 + i] * T.float16(0.5)

    return kernel


@pytest.mark.compile
def test_a_launch_compiles_what_it_lacks(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILE_CACHE", "0")
    kernel = tl.compile(sized(T.sync_warp), target=HOPPER)
    (described,) = kernel.artifact.report["kernels"]
    report = {**kernel.artifact.report, "kernels": [{**described, "file": "kernel_0.cu"}]}
    files = {name: content for name, content in kernel.artifact.files.items() if not name.endswith(".cubin")}
    files["kernel_0.cu"] = kernel.artifact.kernel_source.encode()
    artifact = replace(kernel.artifact, files=files, report=report)
    entry = runtime._Module(artifact, kernel.request).entry()
    entry(4)
    entry(5)
    assert [launch["sizes"][0] for launch in driver.launches] == [4, 5]
    assert len(driver.loaded) == 1
    files["kernel_0.cu"] = b"no kernel"
    with pytest.raises(KernelLaunchError, match="could not be compiled.*NVRTC refused"):
        runtime._Module(artifact, kernel.request).entry()(4)


def test_an_architecture_that_the_compiler_lacks() -> None:
    nvrtc.require_architecture("sm_90a", (80, 90), "12.4")
    with pytest.raises(ToolchainArchitectureError, match=r"NVRTC 12\.4 does not compile for sm_121") as raised:
        nvrtc.require_architecture("sm_121a", (75, 80, 90), "12.4")
    assert "12.9" in raised.value.remedy
    assert "sm_75, sm_80, sm_90" in raised.value.message


def test_more_shared_memory_than_the_target_has_is_refused_with_the_tiles() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=64):
            large = T.alloc_shared((40_000,), "float32")
            small = T.alloc_shared((100,), "float32")
            T.fill(large, 1)
            T.fill(small, 1)
            A[0] = large[0] + small[0]

    with pytest.raises(SharedMemoryLimitError, match="large 160000.*small 400"):
        tl.compile(kernel, target={"kind": "cuda", "arch": "sm_86"})
