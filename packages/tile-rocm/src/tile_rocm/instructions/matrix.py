"""Matrix products of one wave: Clang's builtin for the device beside the emulator's function.

Clang, `BuiltinsAMDGPU.def`; LLVM, `IntrinsicsAMDGPU.td`: operands are vectors of a lane's elements, of integers where
Clang has no vectors of the dtype.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from types import MappingProxyType

from tvm import ir

from tile_core.dtypes import as_dtype
from tile_core.printer.instructions import Attributes, Function, Instruction, Pointer, Size
from tile_core.printer.language import ExprHandler
from tile_rocm.instructions.shapes import SHORT, MatrixInstruction

__all__ = ["CALLS", "MATRIX", "builtin", "instruction_of", "matrix"]

HOST_TYPES = {
    "float64": "F64",
    "float32": "F32",
    "tfloat32": "TF32",
    "float16": "F16",
    "bfloat16": "BF16",
    "float8_e4m3fnuz": "E4M3Fnuz",
    "float8_e5m2fnuz": "E5M2Fnuz",
    "float8_e4m3fn": "E4M3",
    "float8_e5m2": "E5M2",
    "int32": "S32",
    "int8": "S8",
    "uint8": "U8",
}
"""dtype to the type of `tile_formats.h`."""
SMALLEST = {"float16": 14, "bfloat16": 126, "float32": 126}
"""dtype to the exponent of its least normal number, negated."""
_UNSPACED = ("float16", "bfloat16", "float32", "float64")


def builtin(instruction: MatrixInstruction) -> str:
    """Clang's name of an instruction.

    >>> builtin(MatrixInstruction("mfma", 32, 32, 8, "float32", "bfloat16", "bfloat16"))
    '__builtin_amdgcn_mfma_f32_32x32x8bf16_1k'
    >>> builtin(MatrixInstruction("wmma_gfx12", 16, 16, 16, "int32", "int8", "int8"))
    '__builtin_amdgcn_wmma_i32_16x16x16_iu8_w32_gfx12'
    """
    shape = f"{SHORT[instruction.d]}_{instruction.m}x{instruction.n}x{instruction.k}"
    operands, bits = SHORT[instruction.a], as_dtype(instruction.a).bits
    if instruction.a.startswith("float8"):
        operands = f"{SHORT[instruction.a]}_{SHORT[instruction.b]}"
    if instruction.family != "mfma":
        end = "_w32_gfx12" if instruction.family == "wmma_gfx12" else "_w32"
        return f"__builtin_amdgcn_wmma_{shape}_{'iu8' if instruction.d == 'int32' else operands}{end}"
    # The instructions of CDNA 2 and before have the operands' type right behind the shape.
    if bits * instruction.packed <= 64 and instruction.a in _UNSPACED:
        return f"__builtin_amdgcn_mfma_{shape}{operands}{'_1k' if instruction.a == 'bfloat16' else ''}"
    separator = "" if instruction.a == "int8" and instruction.packed == 4 else "_"
    return f"__builtin_amdgcn_mfma_{shape}{separator}{operands}"


def _vector(element: str, count: int) -> str:
    """A typedef's right side, for the name `{}`."""
    return f"{element} {{}}" if count == 1 else f"{element} {{}} __attribute__((ext_vector_type({count})))"


def _operand(instruction: MatrixInstruction) -> str:
    """The type of A and of B: vectors of the elements, or of the words around them."""
    dtype, count = instruction.a, instruction.packed
    floats = {"float64": "double", "float32": "float", "tfloat32": "float", "float16": "_Float16"}
    if dtype in floats:
        return _vector(floats[dtype], count)
    if dtype == "bfloat16":
        return _vector("__bf16" if instruction.family == "mfma" and count == 8 else "short", count)
    words = count // 4
    if instruction.family == "mfma" and words == 2:
        return _vector("long", 1)
    return _vector("int", words)


def _call(instruction: MatrixInstruction) -> str:
    name = builtin(instruction)
    if instruction.family == "mfma":
        return f"{name}(x, y, z, 0, 0, 0)"
    if instruction.d != "int32":
        return f"{name}(x, y, z)"
    signs = ["true" if dtype == "int8" else "false" for dtype in (instruction.a, instruction.b)]
    return f"{name}({signs[0]}, x, {signs[1]}, y, z, false)"


def _device(attributes: Attributes) -> Function:
    instruction, stride = instruction_of(attributes), int(attributes["stride"])
    sums = {"float64": "double", "float32": "float", "int32": "int"}[instruction.d]
    count = instruction.d_layout.registers
    name = f"tile_{instruction.family}_{instruction.name}" + (f"_by_{stride}" if stride > 1 else "")
    operand = _operand(instruction)
    text = f"""
// D += A * B; {count} sums of a lane{f", each {stride}th," if stride > 1 else ""} from `d` on.
__device__ __forceinline__ void {name}(void* d, const void* a, const void* b) {{
  {sums}* const sums = static_cast<{sums}*>(d);
  typedef {_vector(sums, count).format("Sums")};
  typedef {operand.format("Operand")};
  Sums z;
  Operand x, y;
  for (int i = 0; i < {count}; ++i) z[i] = sums[i * {stride}];
  __builtin_memcpy(&x, a, sizeof(x));
  __builtin_memcpy(&y, b, sizeof(y));
  z = {_call(instruction)};
  for (int i = 0; i < {count}; ++i) sums[i * {stride}] = z[i];
}}
"""
    return Function(name, text)


def _host(attributes: Attributes) -> str:
    one = instruction_of(attributes)
    d, a, b = (f"tile::{HOST_TYPES[dtype]}" for dtype in (one.d, one.a, one.b))
    if one.flushes:
        d, a, b = (
            f"tile::Flushed<{kind}, {SMALLEST[dtype]}>"
            for kind, dtype in zip((d, a, b), (one.d, one.a, one.b), strict=True)
        )
    return (
        f"tile::matrix_product<{one.m}, {one.k}, {d}, {a}, {b}, {one.groups}, {one.run}, {int(attributes['stride'])}>"
    )


def instruction_of(attributes: Attributes) -> MatrixInstruction:
    """The instruction that a call names."""
    fields = {name: attributes[name] for name in MatrixInstruction.__dataclass_fields__}
    texts = {name: str(fields[name]) for name in ("d", "a", "b")}
    sizes = {name: int(fields[name]) for name in ("m", "n", "k")}
    return MatrixInstruction(str(fields["family"]), **sizes, **texts, flushes=bool(fields["flushes"]))  # type: ignore[arg-type]


def _sums(attributes: Attributes) -> int:
    instruction = instruction_of(attributes)
    reach = (instruction.d_layout.registers - 1) * int(attributes["stride"]) + 1
    return reach * as_dtype(instruction.d).bits // 8


def _elements(side: str) -> Size:
    def size(attributes: Attributes) -> int:
        instruction = instruction_of(attributes)
        return instruction.packed * as_dtype(getattr(instruction, side)).bits // 8

    return size


MATRIX = Instruction(
    "rocm.matrix",
    _device,
    _host,
    {0: Pointer(reads=_sums, writes=_sums), 1: Pointer(reads=_elements("a")), 2: Pointer(reads=_elements("b"))},
)
CALLS: Mapping[str, ExprHandler] = MappingProxyType({MATRIX.op: MATRIX.forms})
"""How it is printed, for the device and for the host."""


def matrix(d: ir.Expr, a: ir.Expr, b: ir.Expr, *, instruction: MatrixInstruction, stride: int = 1) -> ir.Call:
    """D += A × B: pointers to the lane's elements, as the layouts of `instruction` order them.

    Those of D are `stride` apart.
    """
    fields = {**asdict(instruction), "flushes": int(instruction.flushes)}
    return MATRIX((d, a, b), {**fields, "stride": stride})
