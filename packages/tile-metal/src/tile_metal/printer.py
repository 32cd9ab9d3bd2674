"""The Metal Shading Language as a language of the C-family printer: its words, and what it does not share with others.

MSL is C++14 with address spaces: a pointer says which memory it points to, and a function takes pointers to one kind.
So functions that work on memory are templates of the pointer, or get its address space with a template argument, and
what other languages move by one call is printed as the branch that it means. Lambdas came with version 3.2; nothing
here needs more than 3.1. (Apple, "Metal Shading Language Specification".)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tvm.ir.prim import expr as E
from tvm.tirx import stmt as S

from tile_core.ir import regions
from tile_core.ops import threads
from tile_core.passes.vector_units import SHIFTED_MOVE
from tile_core.printer import messages
from tile_core.printer.expressions import EXPRESSIONS
from tile_core.printer.language import ExprHandler, Node, Snippet
from tile_core.printer.precedence import Code, Precedence, cast
from tile_core.printer.printer import Parameter, Printer
from tile_core.printer.simt import Words, simt_language
from tile_core.printer.statements import STATEMENTS
from tile_metal import atomics, exchanges, functions, simdgroup

if TYPE_CHECKING:
    from tile_core.ir.launch import Launch

MOST_BUFFERS = 31
"""Arguments that a kernel can have ("Metal Feature Set Tables", entries in the buffer argument table)."""
BUILT_IN = (
    "uint3 tile_block [[threadgroup_position_in_grid]]",
    "uint3 tile_thread [[thread_position_in_threadgroup]]",
    "uint tile_lane [[thread_index_in_simdgroup]]",
)
_SPACES = {
    regions.GLOBAL: "device ",
    **dict.fromkeys(regions.SHARED, "threadgroup "),
    **dict.fromkeys((regions.LOCAL, regions.VAR, regions.FRAGMENT, regions.REDUCER), "thread "),
}
WORDS = Words(
    block="tile_block.{axis}",
    thread="tile_thread.{axis}",
    barrier="threadgroup_barrier(mem_flags::mem_device | mem_flags::mem_threadgroup)",
    shared="TILE_SHARED({bytes});",
    # Vector types may alias any other type; scalars of these sizes may not.
    vectors={16: "uint4", 8: "uint2", 4: "ushort2", 2: "uchar2"},
    compare_and_swap="",
    copy_bytes="",
    fence="",
    warp=str(exchanges.LANES),
    kernel="[[max_total_threads_per_threadgroup({threads})]] kernel void {name}({parameters})",
    inline="inline",
    spaces=_SPACES,
)
PRELUDE = """\
#include <metal_stdlib>
using namespace metal;
#if !defined(TILE_SHARED)
#define TILE_SHARED(bytes) alignas(16) threadgroup uchar tile_shared[bytes]
#endif
"""
_TYPES = {
    # `char` is another type than `signed char`, whose sign a host may choose.
    "int8": "int8_t",
    "int64": "long",
    "uint8": "uchar",
    "uint16": "ushort",
    "uint32": "uint",
    "uint64": "ulong",
    "float16": "half",
    "bfloat16": "bfloat",
}
_KEYWORDS = """
as_type atomic_fetch_add_explicit atomic_fetch_max_explicit atomic_fetch_min_explicit atomic_fetch_or_explicit
atomic_float atomic_int atomic_store_explicit atomic_uint constant device fragment kernel mem_flags memory_order_relaxed
metal ray_data sampler simd_all simd_any simd_ballot simd_vote simdgroup_barrier thread threadgroup threadgroup_barrier
threadgroup_imageblock tile_block tile_counted tile_lane tile_shared tile_thread vec vertex visible
"""
_VECTORS = [
    f"{name}{size}"
    for name in "bool char uchar short ushort int uint long ulong half float".split()
    for size in (2, 3, 4)
]


def _parameter(printer: Printer, parameter: Parameter, number: int, is_written: bool) -> tuple[str, str]:
    """A tensor is a pointer to device memory; a scalar is the 8 bytes of its cell, or a float, in constant memory."""
    if number >= MOST_BUFFERS:
        raise printer.unprintable(
            f"more than {MOST_BUFFERS} parameters", remedy="pass fewer tensors and symbolic sizes to one kernel"
        )
    name, type_name, place = parameter.name, printer.type_name(parameter.dtype), f"[[buffer({number})]]"
    if parameter.kind == "buffer":
        return f"device {'' if is_written else 'const '}{type_name}* {name} {place}", ""
    if parameter.dtype == "float32":
        return f"constant float& {name} {place}", ""
    given = f"tile_argument_{number}"
    value = f"as_type<{type_name}>(ushort({given}))" if "float" in parameter.dtype else f"{type_name}({given})"
    return f"constant long& {given} {place}", f"const {type_name} {name} = {value};"


def _attribute(printer: Printer, node: Any) -> None:
    """A load of a vector out of two is printed as the loop over elements that it means."""
    if node.attr_key == SHIFTED_MOVE:
        printer.stmt(node.body)
    else:
        STATEMENTS[S.AttrStmt](printer, node)


def _reinterpret(printer: Printer, node: Node) -> Code:
    wanted, given = printer.dtype(node), printer.dtype(node.args[0])
    if "bool" in (wanted, given):
        raise printer.unprintable(printer.describe(node), node)
    return Code(f"as_type<{printer.type_name(wanted, node)}>({printer.expr(node.args[0]).text})", Precedence.POSTFIX)


def _cast(printer: Printer, node: Node) -> Code:
    """Neither `half` nor `bfloat` becomes the other: float, which holds both exactly, stands between."""
    if {printer.dtype(node), printer.dtype(node.value)} != {"float16", "bfloat16"}:
        return EXPRESSIONS[E.Cast](printer, node)
    return cast(printer.type_name(printer.dtype(node), node), cast("float", printer.expr(node.value)))


_NO_PRINT = 'Metal has no printf: run it with target="interpret" or another backend, or write values to a tensor'


def _print(printer: Printer, node: Node) -> Code:
    raise printer.unprintable("T.print", node, _NO_PRINT)


def _assertion(printer: Printer, node: Any) -> None:
    raise printer.unprintable("T.device_assert", node, _NO_PRINT)


_CALLS: Mapping[str, ExprHandler] = {"tirx.reinterpret": _reinterpret, messages.PRINT_ELEMENT: _print}
_SNIPPETS: Mapping[str, Snippet] = {
    "tile_is_aligned": Snippet("""
template <typename Pointer>
inline bool tile_is_aligned(Pointer address, uint bytes) { return reinterpret_cast<ulong>(address) % bytes == 0; }
"""),
    "tile_sum": Snippet("""
// The sum; integers wrap.
template <typename T>
inline T tile_sum(T a, T b) { return T(a + b); }
inline int tile_sum(int a, int b) { return int(uint(a) + uint(b)); }
inline long tile_sum(long a, long b) { return long(ulong(a) + ulong(b)); }
"""),
}


def _launch(printer: Printer, launch: Launch) -> None:
    if threads.exchanges(launch.body, threads.BLOCK_WIDE):
        printer.line(exchanges.COUNTED)
    assert _SIMT.launch is not None
    _SIMT.launch(printer, launch)


_SIMT = simt_language(
    "Metal",
    WORDS,
    types=_TYPES,
    suffixes={"int64": "l", "uint64": "ul"},
    literals={"float16": "half({value}f)", "bfloat16": "bfloat({value}f)"},
    snippets={**_SNIPPETS, **exchanges.SNIPPETS, **atomics.SNIPPETS, **functions.SNIPPETS, **simdgroup.SNIPPETS},
    calls={**exchanges.CALLS, **atomics.CALLS, **functions.CALLS, **simdgroup.CALLS, **_CALLS},
    expressions={E.Cast: _cast},
    statements={S.AttrStmt: _attribute, S.AssertStmt: _assertion},
    parameter=_parameter,
    built_in=BUILT_IN,
    restrict="",
    header=(PRELUDE,),
    keywords=frozenset((*_KEYWORDS.split(), *_VECTORS)) | {f"tile_argument_{number}" for number in range(MOST_BUFFERS)},
)
_ABSENT = ("float64", "handle")
MSL = replace(
    _SIMT,
    types={dtype: name for dtype, name in _SIMT.types.items() if dtype not in _ABSENT},
    launch=_launch,
)
