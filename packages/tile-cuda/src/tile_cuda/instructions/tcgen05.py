"""Products in tensor memory: sm_100a and its family. PTX ISA, "TensorCore 5th Generation Family Instructions".

Tensor memory has 128 lanes of 512 columns of 32 bits; an address is `lane << 16 | column`. One thread begins a product
of shared operands, whose rows of D are lanes; `tcgen05_commit` lets a barrier's phase wait for what was begun. Threads
load and store lanes, warp w of a warpgroup the lanes from 32 w on. Here are the forms of one CTA with 128 rows, and
with 64, which are the first 16 lanes of each warp; they have been compiled for sm_100a and run in the emulator, not on
hardware.
"""

from __future__ import annotations

from tvm import ir

from tile_cuda.instructions import shapes
from tile_cuda.instructions.base import INLINE, Attributes, Function, Instruction, Pointer, int32, numbers
from tile_cuda.instructions.mma import dense, host_types, instruction_of
from tile_cuda.instructions.shapes import BITS, NARROW_FORMATS, PTX_TYPES, UNITS, MatrixInstruction

__all__ = [
    "tcgen05_alloc",
    "tcgen05_commit",
    "tcgen05_dealloc",
    "tcgen05_descriptor",
    "tcgen05_fence",
    "tcgen05_load",
    "tcgen05_mma",
    "tcgen05_mma_ts",
    "tcgen05_relinquish",
    "tcgen05_store",
    "tcgen05_wait",
]

LANES, COLUMNS = 128, 512
FEWEST_COLUMNS = 32
COUNTS = (1, 2, 4, 8, 16, 32, 64, 128)
SWIZZLES = {0: 0, 128: 2, 64: 4, 32: 6}
"""Bytes of a swizzled row to the code in bits 61 to 63 of a descriptor."""
_VERSION = 1 << 46
_UNIT = 16
_NARROW = {PTX_TYPES[dtype]: number for dtype, number in NARROW_FORMATS}
_KINDS = {"f16": "f16", "bf16": "f16", "tf32": "tf32", "s8": "i8", "u8": "i8", **dict.fromkeys(_NARROW, "f8f6f4")}
_FORMATS = {"f16": 0, "bf16": 1, "tf32": 2, "u8": 0, "s8": 1, **_NARROW}
_RESULTS = {"f32": 1, "s32": 2}


def instruction_descriptor(instruction: MatrixInstruction, attributes: Attributes) -> int:
    """The 32 bits that name shape, types, signs and orders. PTX ISA, "Instruction descriptor".

    >>> from tile_cuda.instructions.shapes import find
    >>> found = find("tcgen05", (128, 256, 16), "float32", "float16", "float16")
    >>> hex(instruction_descriptor(found, {}))
    '0x8400010'
    """
    d, a, b = instruction.types
    fields = (
        (_RESULTS[d], 4),
        (_FORMATS[a], 7),
        (_FORMATS[b], 10),
        (int(attributes.get("scale_a", 1)) < 0, 13),
        (int(attributes.get("scale_b", 1)) < 0, 14),
        (int(attributes.get("a_trans", 0)), 15),
        (int(attributes.get("b_trans", 0)), 16),
        (instruction.n >> 3, 17),
        (instruction.m >> 4, 24),
    )
    return sum(int(value) << position for value, position in fields)


_FIELDS = {"d": (4, 3), "a": (7, 7), "b": (10, 7), "n": (17, 63), "m": (24, 31)}
_ACCUMULATORS = {1: "float32", 2: "int32"}
_OPERANDS = {
    "f16": (16, {0: "float16", 1: "bfloat16"}),
    "tf32": (8, {2: "tfloat32"}),
    "f8f6f4": (32, {number: dtype for dtype, number in NARROW_FORMATS}),
    "i8": (32, {0: "uint8", 1: "int8"}),
}
"""A kind of products to its k, and to its operands by the number of their format."""


def decoded(ptx_type: str, descriptor: int) -> tuple[MatrixInstruction, dict[str, int]] | None:
    """The instruction of 128 rows of a descriptor for operands as `ptx_type`, its orders and signs; `None` for others.

    >>> found, forms = decoded("bf16", 0x8400010)
    >>> found.name, forms["b_trans"]
    ('m128n256k16_f32_f16_f16', 0)
    """
    k, formats = _OPERANDS[_KINDS[ptx_type]]
    d, a, b, n, m = (descriptor >> position & mask for position, mask in _FIELDS.values())
    types = _ACCUMULATORS.get(d), formats.get(a), formats.get(b)
    is_known = None not in types and m << 4 == LANES
    found = shapes.find("tcgen05", (m << 4, n << 3, k), *map(str, types)) if is_known else None
    flags = {"scale_a": 13, "scale_b": 14, "a_trans": 15, "b_trans": 16}
    forms = {name: descriptor >> position & 1 for name, position in flags.items()}
    forms |= {name: -1 if forms[name] else 1 for name in ("scale_a", "scale_b")}
    if found is None or instruction_descriptor(found, forms) != descriptor:
        return None
    return found, forms


# -- products ---------------------------------------------------------------------------------------------------------


def _products(op: str, in_tensor_memory: bool) -> Instruction:
    def device(attributes: Attributes) -> Function:
        instruction = instruction_of("tcgen05", attributes)
        descriptor = instruction_descriptor(instruction, attributes)
        kind = _KINDS[instruction.types[1]]
        name = f"{op.replace('cuda.', 'tile_')}_{kind}_{descriptor:x}"
        a_type, a_letter, a = ("unsigned", "r", "[%1]") if in_tensor_memory else ("unsigned long long", "l", "%1")
        text = f"""
{INLINE} void {name}(unsigned d, {a_type} a, unsigned long long b, int accumulate) {{
  asm volatile("{{\\n.reg .pred p;\\nsetp.ne.b32 p, %4, 0;\\n"
               "tcgen05.mma.cta_group::1.kind::{kind} [%0], {a}, %2, %3, p;\\n}}" ::
               "r"(d), "{a_letter}"(a), "l"(b), "r"({descriptor:#x}u), "r"(accumulate)
               : "memory");
}}
"""
        return Function(name, text)

    def host(attributes: Attributes) -> str:
        found = instruction_of("tcgen05", attributes)
        flags = (int(attributes["a_trans"]), int(attributes["b_trans"]), in_tensor_memory)
        words = ["true" if flag else "false" for flag in flags]
        signs = [str(int(attributes["scale_a"])), str(int(attributes["scale_b"]))]
        sizes = [str(found.m), str(found.n), str(found.k)]
        return f"tile::tcgen05_mma<{', '.join([*sizes, host_types(found), *words, *signs])}>"

    return Instruction(op, device, host, {})


MMA_SS, MMA_TS = _products("cuda.tcgen05_mma", False), _products("cuda.tcgen05_mma_ts", True)


def tcgen05_mma(
    d: ir.Expr,
    a: ir.Expr,
    b: ir.Expr,
    accumulate: ir.Expr,
    *,
    instruction: MatrixInstruction,
    a_trans: bool = False,
    b_trans: bool = False,
    scale_a: int = 1,
    scale_b: int = 1,
) -> ir.Call:
    """One thread begins D = A × B (+ D where the int32 `accumulate` is not 0).

    `d` is the address of D's first column in tensor memory; `a` and `b` are descriptors. An operand lies with k as its
    fast axis, or with `a_trans` and `b_trans` with m and n. Floats of 6 and 4 bits lie 16 in 16 bytes, packed from the
    first bit on. The signs `scale_a` and `scale_b` are 1 or -1.

    Raises:
        ValueError: the instruction is another, or does not take its operands so.
    """
    return MMA_SS((d, a, b, accumulate), _checked(instruction, a_trans, b_trans, scale_a, scale_b))


def tcgen05_mma_ts(
    d: ir.Expr,
    a: ir.Expr,
    b: ir.Expr,
    accumulate: ir.Expr,
    *,
    instruction: MatrixInstruction,
    b_trans: bool = False,
    scale_a: int = 1,
    scale_b: int = 1,
) -> ir.Call:
    """As `tcgen05_mma`, with A in tensor memory at `a`: a row a lane, its elements packed, of at least 8 bits."""
    if instruction.a in UNITS or instruction.m != LANES:
        raise ValueError(f"{instruction.m} rows of A of {instruction.a} are not in tensor memory")
    return MMA_TS((d, a, b, accumulate), _checked(instruction, False, b_trans, scale_a, scale_b))


def _checked(
    instruction: MatrixInstruction, a_trans: bool, b_trans: bool, scale_a: int, scale_b: int
) -> dict[str, int | str]:
    named = dense(instruction, "tcgen05")
    turned = [dtype for dtype, trans in ((instruction.a, a_trans), (instruction.b, b_trans)) if trans]
    for dtype in turned:
        if BITS[PTX_TYPES[dtype]] == 32 or dtype in UNITS:
            raise ValueError(f"tcgen05 reads {dtype} with k as the fast axis only")
    if not {scale_a, scale_b} <= {1, -1} or (instruction.d == "int32" and (scale_a, scale_b) != (1, 1)):
        raise ValueError(f"tcgen05 into {instruction.d} has no signs ({scale_a}, {scale_b})")
    orders = {"a_trans": int(a_trans), "b_trans": int(b_trans), "scale_a": scale_a, "scale_b": scale_b}
    return {**named, **orders}


# -- tensor memory ----------------------------------------------------------------------------------------------------


def _fixed(name: str, parameters: str, statement: str, pointers: dict[int, Pointer] | None = None) -> Instruction:
    text = f"\n{INLINE} void tile_{name}({parameters}) {{\n  {statement}\n}}\n"
    function = Function(f"tile_{name}", text)
    return Instruction(
        f"cuda.{name}", lambda _attributes: function, lambda _attributes: f"tile::{name}", pointers or {}
    )


_ALLOC = """asm volatile("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], %1;" ::
               "r"(static_cast<unsigned>(__cvta_generic_to_shared(address))), "r"(columns)
               : "memory");"""
_DEALLOC = 'asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, %1;" :: "r"(address), "r"(columns));'
_COMMIT = """asm volatile("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];" ::
               "r"(static_cast<unsigned>(__cvta_generic_to_shared(barrier)))
               : "memory");"""


def _plain(name: str, ptx: str) -> Instruction:
    return _fixed(name, "", f'asm volatile("{ptx};" ::: "memory");')


ALLOC = _fixed(
    "tcgen05_alloc", "void* address, int columns", _ALLOC, {0: Pointer(writes=lambda _attributes: 4, lazy=True)}
)
DEALLOC = _fixed("tcgen05_dealloc", "unsigned address, int columns", _DEALLOC)
RELINQUISH = _plain("tcgen05_relinquish", "tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned")
COMMIT = _fixed("tcgen05_commit", "const void* barrier", _COMMIT, {0: Pointer(accounted=True)})
WAIT_LOADS = _plain("tcgen05_wait_loads", "tcgen05.wait::ld.sync.aligned")
WAIT_STORES = _plain("tcgen05_wait_stores", "tcgen05.wait::st.sync.aligned")
FENCE_BEFORE = _plain("tcgen05_fence_before", "tcgen05.fence::before_thread_sync")
FENCE_AFTER = _plain("tcgen05_fence_after", "tcgen05.fence::after_thread_sync")


def tcgen05_alloc(address: ir.Expr, columns: int) -> ir.Call:
    """A warp takes `columns` columns, and their address is stored at `address` in shared memory, a uint32.

    Raises:
        ValueError: `columns` is no power of two from 32 to 512.
    """
    return ALLOC((address, int32(_allocated(columns))))


def tcgen05_dealloc(address: ir.Expr, columns: int) -> ir.Call:
    """A warp gives columns back; a block must have given back all before it ends."""
    return DEALLOC((address, int32(_allocated(columns))))


def _allocated(columns: int) -> int:
    if not FEWEST_COLUMNS <= columns <= COLUMNS or columns & (columns - 1):
        raise ValueError(f"a power of two from {FEWEST_COLUMNS} to {COLUMNS} columns can be taken, not {columns}")
    return columns


def tcgen05_relinquish() -> ir.Call:
    """This block takes no more columns."""
    return RELINQUISH()


def tcgen05_commit(barrier: ir.Expr) -> ir.Call:
    """One arrival at a barrier in shared memory when the products that this thread has begun are done."""
    return COMMIT((barrier,))


def _shape(count: int, upper: int) -> tuple[str, str]:
    """The shape of a move, and what follows its address."""
    return (f"16x32bx2.x{count}.b32", f", {upper}") if upper else (f"32x32b.x{count}.b32", "")


def _load_text(name: str, mnemonic: str, count: int, upper: int) -> str:
    shape, behind = _shape(count, upper)
    outputs = ", ".join(f'"=r"(words[{at}])' for at in range(count))
    return f"""
{INLINE} void {name}(void* registers, unsigned address) {{
  unsigned* const words = static_cast<unsigned*>(registers);
  asm volatile("{mnemonic}.{shape} {{{numbers(0, count)}}}, [%{count}]{behind};"
               : {outputs}
               : "r"(address)
               : "memory");
}}
"""


def _store_text(name: str, mnemonic: str, count: int, upper: int) -> str:
    shape, behind = _shape(count, upper)
    inputs = ", ".join(f'"r"(words[{at}])' for at in range(count))
    return f"""
{INLINE} void {name}(unsigned address, const void* registers) {{
  const unsigned* const words = static_cast<const unsigned*>(registers);
  asm volatile("{mnemonic}.{shape} [%0]{behind}, {{{numbers(1, count)}}};" ::
               "r"(address), {inputs}
               : "memory");
}}
"""


def _moves(name: str, ptx: str) -> Instruction:
    is_load = name == "load"

    def device(attributes: Attributes) -> Function:
        count, upper = int(attributes["count"]), int(attributes.get("upper", 0))
        called = f"tile_tcgen05_{name}_x{count}{f'_upper_{upper}' if upper else ''}"
        text = _load_text if is_load else _store_text
        return Function(called, text(called, f"tcgen05.{ptx}.sync.aligned", count, upper))

    def size(attributes: Attributes) -> int:
        return 4 * int(attributes["count"])

    pointers = {0: Pointer(writes=size, later=True)} if is_load else {1: Pointer(reads=size)}
    return Instruction(
        f"cuda.tcgen05_{name}",
        device,
        lambda attributes: f"tile::tcgen05_{name}<{int(attributes['count'])}, {int(attributes.get('upper', 0))}>",
        pointers,
    )


LOAD, STORE = _moves("load", "ld"), _moves("store", "st")


def tcgen05_load(registers: ir.Expr, address: ir.Expr, *, count: int, upper: int = 0) -> ir.Call:
    """Load `count` columns of this thread's lane into its 32-bit registers; they are there after `tcgen05_wait`.

    With `upper` a warp moves its first 16 lanes: its upper half of threads has their columns from `upper` further on.

    Raises:
        ValueError: `count` is no power of two up to 128.
    """
    return LOAD((registers, address), _form(count, upper))


def tcgen05_store(address: ir.Expr, registers: ir.Expr, *, count: int, upper: int = 0) -> ir.Call:
    """Store `count` 32-bit registers to columns of this thread's lane. `upper`, and raises, as `tcgen05_load`."""
    return STORE((address, registers), _form(count, upper))


def _form(count: int, upper: int) -> dict[str, int]:
    return {"count": _counted(count), "upper": upper} if upper else {"count": _counted(count)}


def _counted(count: int) -> int:
    if count not in COUNTS:
        raise ValueError(f"a power of two up to 128 columns is moved at once, not {count}")
    return count


def tcgen05_wait(what: str) -> ir.Call:
    """Wait for this thread's `loads` or `stores` of tensor memory."""
    return {"loads": WAIT_LOADS, "stores": WAIT_STORES}[what]()


def tcgen05_fence(where: str) -> ir.Call:
    """Order what is done to tensor memory with a barrier of threads: `before` or `after` it."""
    return {"before": FENCE_BEFORE, "after": FENCE_AFTER}[where]()


# -- descriptors ------------------------------------------------------------------------------------------------------


def _fields(attributes: Attributes) -> int:
    leading, stride = int(attributes["leading_bytes"]), int(attributes["stride_bytes"])
    return leading // _UNIT << 16 | stride // _UNIT << 32 | _VERSION | SWIZZLES[int(attributes["swizzle"])] << 61


def _descriptor(attributes: Attributes) -> Function:
    fields = _fields(attributes)
    name = f"tile_tcgen05_descriptor_{fields:x}"
    text = f"""
{INLINE} unsigned long long {name}(const void* tile) {{
  const unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(tile));
  return {fields:#x}ull | (address & 0x3ffff) >> 4;
}}
"""
    return Function(name, text)


DESCRIPTOR = Instruction(
    "cuda.tcgen05_descriptor",
    _descriptor,
    lambda attributes: f"tile::smem_descriptor<{_fields(attributes):#x}ull>",
    {},
    pure=True,
)


def tcgen05_descriptor(tile: ir.Expr, *, leading_bytes: int, stride_bytes: int, swizzle: int) -> ir.Call:
    """The uint64 descriptor of an operand at `tile`, as `smem_descriptor` says; `descriptor_advance` moves it.

    Raises:
        ValueError: a swizzle that there is not, or a distance that is no multiple of 16 or does not fit.
    """
    if swizzle not in SWIZZLES:
        raise ValueError(f"a swizzle spans 0, 32, 64 or 128 bytes, not {swizzle}")
    for distance in (leading_bytes, stride_bytes):
        if distance % _UNIT or not 0 <= distance < _UNIT << 14:
            raise ValueError(f"a descriptor has no distance of {distance} bytes")
    fields = {"leading_bytes": leading_bytes, "stride_bytes": stride_bytes, "swizzle": swizzle}
    return DESCRIPTOR((tile,), fields, "uint64")


ALL = (
    MMA_SS,
    MMA_TS,
    ALLOC,
    DEALLOC,
    RELINQUISH,
    COMMIT,
    WAIT_LOADS,
    WAIT_STORES,
    FENCE_BEFORE,
    FENCE_AFTER,
    LOAD,
    STORE,
    DESCRIPTOR,
)
