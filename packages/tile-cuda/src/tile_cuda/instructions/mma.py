"""Matrix products of one warp, all operands in registers. PTX ISA, "mma"."""

from __future__ import annotations

from tvm import ir

from tile_core.layouts.registers import FragmentLayout
from tile_cuda.instructions import shapes
from tile_cuda.instructions.base import INLINE, Attributes, Function, Instruction, Pointer, Size, numbers
from tile_cuda.instructions.shapes import BITS, MatrixInstruction

__all__ = ["MMA", "MMA_SP", "ROUND_TF32", "mma", "mma_sp", "round_tf32"]

HOST_TYPES = {name: name.upper() for name in BITS}
"""PTX's name of a type to the type of `cuda_matrix.h`."""


def attributes_of(instruction: MatrixInstruction) -> dict[str, int | str]:
    """The attributes by which a call names its instruction."""
    shape = {"m": instruction.m, "n": instruction.n, "k": instruction.k, "sparse": int(instruction.sparse)}
    return {**shape, "d_dtype": instruction.d, "a_dtype": instruction.a, "b_dtype": instruction.b}


def dense(instruction: MatrixInstruction, family: shapes.Family) -> dict[str, int | str]:
    """The attributes of a product of `family`.

    Raises:
        ValueError: the instruction is of another family, or sparse.
    """
    if instruction.family != family or instruction.sparse:
        raise ValueError(f"{family} does not compute {instruction.family} {instruction.name}")
    return attributes_of(instruction)


def selected(instruction: MatrixInstruction, family: shapes.Family, selector: int) -> dict[str, int | str]:
    """The attributes of a sparse product of `family`.

    Raises:
        ValueError: the instruction is of another family, not sparse, or has no such selector.
    """
    if instruction.family != family or not instruction.sparse or not 0 <= selector < 4 // instruction.metadata_threads:
        raise ValueError(f"{family} does not compute {instruction.family} {instruction.name} with selector {selector}")
    return {**attributes_of(instruction), "selector": selector}


def instruction_of(family: shapes.Family, attributes: Attributes) -> MatrixInstruction:
    """The instruction that a call names."""
    m, n, k = (int(attributes.get(axis, 64)) for axis in "mnk")
    d, a, b = (str(attributes[f"{operand}_dtype"]) for operand in "dab")
    found = shapes.find(family, (m, n, k), d, a, b, sparse=bool(attributes.get("sparse", 0)))
    if found is None:
        raise ValueError(f"there is no {family} m{m}n{n}k{k} of {a} and {b} into {d}")
    return found


def register_bytes(layout: FragmentLayout, ptx_type: str) -> int:
    """The bytes of a lane's registers."""
    return layout.registers * BITS[ptx_type] // 8


def host_types(instruction: MatrixInstruction) -> str:
    """Template arguments: the types of D, A and B."""
    return ", ".join(f"tile::{HOST_TYPES[name]}" for name in instruction.types)


def _device(attributes: Attributes) -> Function:
    instruction = instruction_of("mma", attributes)
    assert instruction.b_layout is not None
    types = instruction.types
    layouts = (instruction.d_layout, instruction.a_layout, instruction.b_layout)
    is_double = types[0] == "f64"
    word, letter, width = ("double", "d", 8) if is_double else ("unsigned", "r", 4)
    d, a, b = (register_bytes(layout, name) // width for layout, name in zip(layouts, types, strict=True))
    d_word, d_letter = ("float", "f") if types[0] == "f32" else (word, letter)
    outputs = ", ".join(f'"+{d_letter}"(z[{at}])' for at in range(d))
    inputs = ", ".join([*(f'"{letter}"(x[{at}])' for at in range(a)), *(f'"{letter}"(y[{at}])' for at in range(b))])
    name = f"tile_mma_{instruction.name}"
    shape = f"m{instruction.m}n{instruction.n}k{instruction.k}"
    operands = f"{{{numbers(0, d)}}}, {{{numbers(d, a)}}}, {{{numbers(d + a, b)}}}, {{{numbers(0, d)}}}"
    kind = "kind::f8f6f4." if instruction.narrow else ""
    mnemonic, parameter = "mma", ""
    if instruction.sparse:
        mnemonic, parameter = "mma.sp::ordered_metadata", ", unsigned metadata"
        operands += f", %{d + a + b}, {int(attributes['selector'])}"
        inputs += ', "r"(metadata)'
        name += f"_{int(attributes['selector'])}"
    text = f"""
{INLINE} void {name}(void* d, const void* a, const void* b{parameter}) {{
  {d_word} z[{d}];
  {word} x[{a}], y[{b}];
  memcpy(z, d, sizeof(z));
  memcpy(x, a, sizeof(x));
  memcpy(y, b, sizeof(y));
  asm volatile("{mnemonic}.sync.aligned.{shape}.row.col.{kind}{".".join([*types, types[0]])} {operands};"
               : {outputs}
               : {inputs});
  memcpy(d, z, sizeof(z));
}}
"""
    return Function(name, text)


def _host(attributes: Attributes) -> str:
    found = instruction_of("mma", attributes)
    if found.sparse:
        return f"tile::mma_sp<{found.k}, {host_types(found)}, {int(attributes['selector'])}>"
    return f"tile::mma<{found.m}, {found.k}, {host_types(found)}>"


def _size(operand: int) -> Size:
    def size(attributes: Attributes) -> int:
        found = instruction_of("mma", attributes)
        layout = (found.d_layout, found.a_layout, found.b_layout)[operand]
        assert layout is not None
        return register_bytes(layout, found.types[operand])

    return size


_POINTERS = {0: Pointer(reads=_size(0), writes=_size(0)), 1: Pointer(reads=_size(1)), 2: Pointer(reads=_size(2))}
MMA = Instruction("cuda.mma", _device, _host, _POINTERS)
MMA_SP = Instruction("cuda.mma_sp", _device, _host, _POINTERS)


def mma(d: ir.Expr, a: ir.Expr, b: ir.Expr, *, instruction: MatrixInstruction) -> ir.Call:
    """D += A × B: pointers to the lane's packed registers, as the layouts of `instruction` order them.

    A is read by rows, B by columns; the lane's elements of each lie one after another.

    Raises:
        ValueError: the instruction is of another family, or sparse.
    """
    return MMA((d, a, b), dense(instruction, "mma"))


def mma_sp(
    d: ir.Expr, a: ir.Expr, b: ir.Expr, metadata: ir.Expr, *, instruction: MatrixInstruction, selector: int = 0
) -> ir.Call:
    """D += A × B with a sparse A: the lane's held elements of A, and its uint32 of metadata.

    The words of the lanes that `instruction.metadata_lane(…, selector)` names are looked at.

    Raises:
        ValueError: the instruction is not sparse, or has no such selector.
    """
    return MMA_SP((d, a, b, metadata), selected(instruction, "mma", selector))


_ROUND = f"""
{INLINE} float tile_round_tf32(float value) {{
  unsigned bits;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(value));
  return __uint_as_float(bits);
}}
"""
ROUND_TF32 = Instruction(
    "cuda.round_tf32",
    lambda _attributes: Function("tile_round_tf32", _ROUND),
    lambda _attributes: "tile::round_tf32",
    {},
    pure=True,
)


def round_tf32(value: ir.Expr) -> ir.Call:
    """The float32 `value` with 10 bits of mantissa, to nearest, halves away from zero; sm_80.

    Instructions on tfloat32 cut off the bits that are dropped here.
    """
    return ROUND_TF32((value,), dtype="float32")
