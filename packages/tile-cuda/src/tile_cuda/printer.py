"""CUDA C++ as a language of the C-family printer: its words, the launch, and the operations that only threads have.

Shared memory is one array per block, `tile_shared`, in which every tile has the place that `plan_shared_memory` gave
it. Vector accesses are moves of 2 to 16 bytes between memory and small arrays of a thread, spelled as CUDA's vector
types.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tvm import ir
from tvm.ir.prim import expr as E
from tvm.tirx import stmt as S

from tile_core.ir import regions, visit
from tile_core.printer.c import C
from tile_core.printer.expressions import element
from tile_core.printer.language import ExprHandler, Function
from tile_core.printer.precedence import Code, call
from tile_core.printer.printer import PrintedFunction, print_function
from tile_core.printer.statements import STATEMENTS

if TYPE_CHECKING:
    from tile_core.device import DeviceKernel
    from tile_core.ir.launch import Launch
    from tile_core.printer.printer import Printer

SHARED = "tile_shared"
_AXES = ("x", "y", "z")
_VECTOR_TYPES = {16: "uint4", 8: "uint2", 4: "unsigned int", 2: "unsigned short"}
_DEFAULT_ALIGNMENT = 64
_FULL_WARP = "0xffffffffu"

HEADER = ("#include <cuda_bf16.h>", "#include <cuda_fp16.h>")
HELPERS = """
__device__ __forceinline__ unsigned tile_warp_mask() {
  // The lanes that exist: the last warp of a block may be short.
  const unsigned threads = blockDim.x * blockDim.y * blockDim.z;
  const unsigned thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
  const unsigned lanes = threads - thread / 32u * 32u;
  return lanes >= 32u ? 0xffffffffu : (1u << lanes) - 1u;
}
template <typename T>
__device__ __forceinline__ T tile_shuffle_xor(T value, int distance) {
  return __shfl_xor_sync(tile_warp_mask(), value, distance);
}
// Maximum and minimum that give NaN if either operand is NaN.
template <typename T>
__device__ __forceinline__ T tile_max(T a, T b) {
  return a > b || a != a ? a : b;
}
template <typename T>
__device__ __forceinline__ T tile_min(T a, T b) {
  return a < b || a != a ? a : b;
}
template <typename T>
__device__ __forceinline__ T tile_round(T x) {
  // Halves away from zero.
  const T whole = trunc(x);
  return fabs(x - whole) >= T(0.5) ? whole + copysign(T(1), x) : whole;
}
// Read-modify-write of one element; the value before. Additions of the types that hardware adds atomically are single
// instructions; everything else is a compare-and-swap of the word that holds the element.
template <typename Word, typename T, typename Combine>
__device__ __forceinline__ T tile_atomic_swap(T* address, Combine combine) {
  const unsigned long long bits = reinterpret_cast<unsigned long long>(address);
  Word* const word = reinterpret_cast<Word*>(bits / sizeof(Word) * sizeof(Word));
  const unsigned byte = static_cast<unsigned>(bits % sizeof(Word));
  Word seen = *word;
  while (true) {
    T old;
    memcpy(&old, reinterpret_cast<const char*>(&seen) + byte, sizeof(T));
    const T value = combine(old);
    Word wanted = seen;
    memcpy(reinterpret_cast<char*>(&wanted) + byte, &value, sizeof(T));
    const Word before = atomicCAS(word, seen, wanted);
    if (before == seen) return old;
    seen = before;
  }
}
template <typename T, typename Combine>
__device__ __forceinline__ T tile_atomic(T* address, Combine combine) {
  if constexpr (sizeof(T) == 8) {
    return tile_atomic_swap<unsigned long long>(address, combine);
  } else {
    return tile_atomic_swap<unsigned int>(address, combine);
  }
}
template <typename T>
__device__ __forceinline__ T tile_atomic_add(T* address, T value) {
  return tile_atomic(address, [=](T old) { return T(old + value); });
}
__device__ __forceinline__ int tile_atomic_add(int* address, int value) { return atomicAdd(address, value); }
__device__ __forceinline__ unsigned tile_atomic_add(unsigned* address, unsigned value) {
  return atomicAdd(address, value);
}
__device__ __forceinline__ float tile_atomic_add(float* address, float value) { return atomicAdd(address, value); }
__device__ __forceinline__ double tile_atomic_add(double* address, double value) { return atomicAdd(address, value); }
template <typename T>
__device__ __forceinline__ T tile_atomic_max(T* address, T value) {
  return tile_atomic(address, [=](T old) { return tile_max(old, value); });
}
template <typename T>
__device__ __forceinline__ T tile_atomic_min(T* address, T value) {
  return tile_atomic(address, [=](T old) { return tile_min(old, value); });
}
template <typename T>
__device__ __forceinline__ T tile_atomic_or(T* address, T value) {
  return tile_atomic(address, [=](T old) { return T(old | value); });
}
__device__ __forceinline__ bool tile_is_aligned(const void* address, unsigned bytes) {
  return reinterpret_cast<unsigned long long>(address) % bytes == 0;
}
"""


def kernel_launch(printer: Printer, launch: Launch) -> None:
    """Names for the block and thread indices in use, the shared memory, and the body of one thread."""
    if launch.shared_bytes:
        printer.line(f"extern __shared__ __align__(1024) unsigned char {SHARED}[];")
    used = set(visit.collect(launch.body, ir.Var))
    zero, threads = E.IntImm("int32", 0), [E.IntImm("int32", count) for count in launch.threads]
    for word, variables, extents in (
        ("blockIdx", launch.grid_vars, launch.grid_extents),
        ("threadIdx", launch.thread_vars, threads),
    ):
        for axis, var, extent in zip(_AXES, variables, extents, strict=False):
            if var in used:
                printer.intervals.bind_loop(var, zero, extent)
                name = printer.names.declare(var, str(var.name))
                printer.line(f"const {printer.type_name(printer.dtype(var))} {name} = {word}.{axis};")
    printer.stmt(launch.body)


def _allocate(printer: Printer, node: Any) -> None:
    buffer, place = node.buffer, regions.scope(node.buffer)
    type_name = printer.type_name(str(buffer.ty.dtype), node)
    if place in regions.SHARED:
        name = printer.names.declare(buffer, str(buffer.name))
        offset = int(node.annotations["tile.offset"])
        printer.line(f"{type_name}* const {name} = reinterpret_cast<{type_name}*>({SHARED} + {offset});")
        return
    alignment = int(buffer.ty.data_alignment)
    itemsize = max(1, int(buffer.dtype.bits) // 8)
    if itemsize < alignment < _DEFAULT_ALIGNMENT:
        name = printer.names.declare(buffer, str(buffer.name))
        count = 1
        for extent in buffer.ty.shape:
            count *= int(extent.value)
        printer.line(f"alignas({alignment}) {type_name} {name}[{count}];")
        return
    STATEMENTS[S.AllocBuffer](printer, node)


def _vector_store(printer: Printer, node: Any) -> None:
    """A move of whole vectors: `*(uint4*)&a[i] = *(const uint4*)&b[j];`."""
    source = node.value
    if not isinstance(source, ir.TensorLoad):
        raise printer.unprintable("vector arithmetic", node)
    lanes, bits = int(source.ty.dtype.lanes), int(source.ty.dtype.bits)
    vector = _VECTOR_TYPES.get(lanes * bits // 8)
    if vector is None:
        raise printer.unprintable(f"a vector of {lanes} × {bits} bits", node)
    target = element(printer, node.buffer, _first(node.indices))
    value = element(printer, source.source, _first(source.indices))
    printer.line(f"*reinterpret_cast<{vector}*>(&{target.text}) = *reinterpret_cast<const {vector}*>(&{value.text});")


def _first(indices: Any) -> list[Any]:
    return [index.base if isinstance(index, E.Ramp) else index for index in indices]


def _barrier(printer: Printer, node: Any) -> Code:
    return Code("__syncthreads()")


def _named(name: str) -> ExprHandler:
    """A call of a function whose name does not depend on the dtype."""
    return lambda printer, node: call(name, *map(printer.expr, node.args))


def _atomic(printer: Printer, node: Any) -> Code:
    return call(f"tile_atomic_{node.attrs['kind']}", *map(printer.expr, node.args))


NATIVE = frozenset({"tile.max", "tile.min", "tile.maxnum", "tile.minnum", "tile.round", "tile.fmod", "tile.fma"})
"""The scalar ops of core that CUDA C++ has a call for."""

CUDA = C.extend(
    "CUDA C++",
    types={
        "int8": "signed char",
        "int16": "short",
        "int32": "int",
        "int64": "long long",
        "uint8": "unsigned char",
        "uint16": "unsigned short",
        "uint32": "unsigned int",
        "uint64": "unsigned long long",
        "float16": "__half",
        "bfloat16": "__nv_bfloat16",
        "handle": "void*",
    },
    literals={"float16": "__half({value}f)", "bfloat16": "__nv_bfloat16({value}f)"},
    loops={int(S.ForKind.UNROLLED): "#pragma unroll"},
    statements={S.AllocBuffer: _allocate},
    calls={
        "tile.barrier": _barrier,
        "tile.shuffle_xor": _named("tile_shuffle_xor"),
        "tile.is_aligned": _named("tile_is_aligned"),
        "tile.atomic_rmw": _atomic,
        "tile.max": _named("tile_max"),
        "tile.min": _named("tile_min"),
        "tile.round": _named("tile_round"),
        "tile.fmod": Function({"float32": "fmodf", "float64": "fmod"}),
        "tile.fma": Function({"float32": "fmaf", "float64": "fma"}),
        "tile.maxnum": Function({"float32": "fmaxf", "float64": "fmax"}),
        "tile.minnum": Function({"float32": "fminf", "float64": "fmin"}),
        "tirx.rsqrt": Function({"float32": "rsqrtf", "float64": "rsqrt"}),
    },
    launch=kernel_launch,
    vector_store=_vector_store,
    inline="__device__ __forceinline__",
    restrict="__restrict__ ",
    infinity="__int_as_float(0x7f800000)",
    nan="__int_as_float(0x7fffffff)",
    header=(*HEADER, HELPERS),
)


def print_kernel(kernel: DeviceKernel, target: object, *, source_lines: bool = False) -> PrintedFunction:
    """One kernel as a CUDA C++ source of its own."""
    threads = kernel.threads[0] * kernel.threads[1] * kernel.threads[2]
    bounds = f" __launch_bounds__({threads})" if threads > 1 else ""
    language = CUDA.extend(CUDA.name, function=f'extern "C" __global__ void{bounds} {{name}}({{parameters}})')
    return print_function(kernel.func, language, target=target, source_lines=source_lines)
