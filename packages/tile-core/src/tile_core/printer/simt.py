"""What the C++ dialects of GPUs have in common: a kernel is the program of one thread.

Such languages differ in words (`Words`), types, and how they spell exchanges and atomics; the launch, shared memory
and vector moves are printed alike. Shared memory is one array a block, `tile_shared`, in which every tile has the place
that `plan_shared_memory` gave it. Vector accesses move 2 to 16 bytes between memory and small arrays of a thread.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import prod
from typing import TYPE_CHECKING, Any

from tvm import ir
from tvm.ir.prim import expr as E
from tvm.tirx import stmt as S
from tvm.tirx.buffer import is_buffer_var

from tile_core.dtypes import as_dtype
from tile_core.ir import regions, visit
from tile_core.ir.alignment import IS_ALIGNED
from tile_core.ir.analyzer import Analyzer
from tile_core.ir.launch import EVICTION, EVICTIONS
from tile_core.ir.views import viewed
from tile_core.passes.accesses import substitute
from tile_core.passes.vector_units import ALIGNED_MOVE, SHIFTED_MOVE
from tile_core.printer import messages
from tile_core.printer.c import C
from tile_core.printer.expressions import EXPRESSIONS, element
from tile_core.printer.language import ExprHandler, Function, Language, Snippet, StmtHandler, Use
from tile_core.printer.pairs import Pair, PairHandlers
from tile_core.printer.precedence import Code, Precedence, call
from tile_core.printer.printer import Parameter, PrintedFunction, print_function
from tile_core.printer.snippets import COMBINATIONS, SNIPPETS, spell
from tile_core.printer.statements import STATEMENTS
from tile_core.printer.together import require_all_lanes

if TYPE_CHECKING:
    from tile_core.device import DeviceKernel
    from tile_core.ir.launch import Launch
    from tile_core.printer.printer import Printer

SHARED = "tile_shared"
NATIVE = frozenset({"tile.max", "tile.min", "tile.maxnum", "tile.minnum", "tile.round", "tile.fmod", "tile.fma"})
"""The scalar ops of core that these languages have a call for."""

_AXES = ("x", "y", "z")
_DEFAULT_ALIGNMENT = 64
_INT_BITS = 32


@dataclass(frozen=True)
class Words:
    """The words of one language.

    * `block`, `thread`: an index, with `{axis}`; `barrier`: all threads of the block wait.
    * `shared`: declares `tile_shared`, whose size the launch gives, or `{bytes}`.
    * `vectors`: bytes to the type whose assignment moves that many at once.
    * `inline`: qualifies a function of the device; `compare_and_swap`: the function of that name on `unsigned` and
      `unsigned long long`; `copy_bytes`: `memcpy`.
    * `warp`: the number of lanes of a warp, which may depend on the target.
    * `fence`: orders the memory accesses of this thread, as the device sees them.
    * `kernel`: the head of a kernel, with `{name}`, `{parameters}` and `{threads}`; `{bounds}` are the threads and,
      where the program says so, how many blocks a processor should hold.
    * `pairs`: dtypes that are computed on two at a time.
    * `spaces`: see `Language`; a snippet of functions that take pointers to memory has one for each space.
    """

    block: str
    thread: str
    barrier: str
    shared: str
    vectors: Mapping[int, str]
    compare_and_swap: str
    copy_bytes: str
    fence: str
    warp: str
    kernel: str
    inline: str = "__device__ __forceinline__"
    pairs: Mapping[str, Pair] = field(default_factory=dict)
    spaces: Mapping[str, str] = field(default_factory=dict)


_TYPES = {
    "int8": "signed char",
    "int16": "short",
    "int32": "int",
    "int64": "long long",
    "uint8": "unsigned char",
    "uint16": "unsigned short",
    "uint32": "unsigned int",
    "uint64": "unsigned long long",
    "handle": "void*",
}


def simt_language(
    name: str,
    words: Words,
    *,
    types: Mapping[str, str],
    snippets: Mapping[str, Snippet],
    calls: Mapping[str, ExprHandler] | None = None,
    expressions: Mapping[type, ExprHandler] | None = None,
    statements: Mapping[type, StmtHandler] | None = None,
    restrict: str = "__restrict__ ",
    **vocabulary: Any,
) -> Language:
    """The language `name`; the other arguments say what it has besides `words`, or otherwise."""
    common = {key: Snippet(spell(snippet.text, words), snippet.needs) for key, snippet in SNIPPETS.items()}
    if words.compare_and_swap in snippets:
        common["tile_atomic"] = replace(common["tile_atomic"], needs=(words.compare_and_swap,))
    return C.extend(
        name,
        types={**_TYPES, **types, **{f"{dtype}x2": pair.type for dtype, pair in words.pairs.items()}},
        expressions=PairHandlers(words.pairs, {**EXPRESSIONS, **(expressions or {})}).expressions(),
        loops={int(S.ForKind.UNROLLED): "#pragma unroll"},
        scopes={regions.REDUCER: ""},
        spaces=words.spaces,
        statements={
            S.AllocBuffer: _allocate,
            S.DeclBuffer: _view,
            S.AssertStmt: messages.assertion,
            S.AttrStmt: _aligned_move(words),
            **(statements or {}),
        },
        snippets={**common, **messages.SNIPPETS, **snippets},
        calls={**_CALLS, "tile.barrier": lambda _printer, _node: Code(words.barrier), **(calls or {})},
        launch=lambda printer, launch: _launch(printer, launch, words),
        vector_load=_vector_load,
        vector_store=_vector_store(words),
        inline=words.inline,
        restrict=restrict,
        function=words.kernel,
        **vocabulary,
    )


def print_kernel(
    kernel: DeviceKernel, language: Language, target: object, *, source_lines: bool = False
) -> PrintedFunction:
    """One kernel as a source of its own, with its prelude before it.

    Raises:
        UnprintableError: as `print_function`.
    """
    if kernel.entry:
        return _source_kernel(kernel, language)
    threads, blocks = str(prod(kernel.threads)), kernel.options.get("min_blocks_per_sm")
    head = language.function.replace("{threads}", threads)
    head = head.replace("{bounds}", threads if blocks is None else f"{threads}, {blocks}")
    head = head.replace("{unit}", language.unit(kernel)) if language.unit is not None else head
    language = language.extend(language.name, function=head, loads=_hinted(kernel.options, language))
    printed = print_function(kernel.func, language, target=target, source_lines=source_lines)
    return replace(printed, header=(*printed.header, kernel.prelude)) if kernel.prelude.strip() else printed


def _hinted(options: Mapping[str, int], language: Language) -> dict[str, str]:
    """The tensors of which caches are told how long to keep them, and the snippets that do, where there are such."""
    named = {
        name.removeprefix(EVICTION): f"tile_load_{EVICTIONS[policy]}"
        for name, policy in options.items()
        if name.startswith(EVICTION)
    }
    return {tensor: load for tensor, load in named.items() if load in language.snippets}


def _source_kernel(kernel: DeviceKernel, language: Language) -> PrintedFunction:
    """A kernel that its prelude defines; every parameter is one of the program's."""
    parameters = tuple(
        Parameter(str(var.name), str(var.ty.dtype), "buffer" if is_buffer_var(var) else "scalar", position)
        for position, var in enumerate(kernel.func.params)
    )
    return PrintedFunction(kernel.entry, parameters, "", (*language.header, kernel.prelude))


def snippet_call(name: str) -> ExprHandler:
    """A call of the function that the snippet `name` defines, whatever the dtype."""

    def handler(printer: Printer, node: Any) -> Code:
        printer.snippet(name)
        return call(name, *map(printer.expr, node.args))

    return handler


def _launch(printer: Printer, launch: Launch, words: Words) -> None:
    """Names for the block and thread indices in use, the shared memory, and the body of one thread."""
    if launch.cluster_dims != (1, 1, 1) and not printer.language.clusters:
        raise printer.unprintable(f"clusters of blocks, cluster_dims={launch.cluster_dims}")
    if launch.shared_bytes:
        printer.line(words.shared.replace("{bytes}", str(launch.shared_bytes)))
    used = set(visit.collect(launch.body, ir.Var))
    threads = [E.IntImm("int32", count) for count in launch.threads]
    groups = ((launch.grid_vars, launch.grid_extents, words.block), (launch.thread_vars, threads, words.thread))
    for axes, extents, word in groups:
        for axis, var, extent in zip(_AXES, axes, extents, strict=False):
            if var in used:
                printer.intervals.bind_loop(var, E.IntImm("int32", 0), extent)
                name = printer.names.declare(var, str(var.name))
                index = word.format(axis=axis)
                printer.line(f"{printer.language.const}{printer.type_name(printer.dtype(var))} {name} = {index};")
    printer.stmt(launch.body)


def _allocate(printer: Printer, node: Any) -> None:
    buffer = node.buffer
    type_name = printer.type_name(str(buffer.ty.dtype), node)
    alignment, itemsize = int(buffer.ty.data_alignment), max(1, int(buffer.dtype.bits) // 8)
    if regions.scope(buffer) in regions.SHARED:
        name = printer.names.declare(buffer, str(buffer.name))
        place = f"{SHARED} + {int(node.annotations['tile.offset'])}"
        pointer = printer.pointer(regions.scope(buffer), type_name)
        printer.line(f"{pointer} const {name} = reinterpret_cast<{pointer}>({place});")
    elif itemsize < alignment < _DEFAULT_ALIGNMENT:
        name = printer.names.declare(buffer, str(buffer.name))
        count = prod(int(extent.value) for extent in buffer.ty.shape)
        printer.line(f"alignas({alignment}) {type_name} {name}[{count}];")
    else:
        STATEMENTS[S.AllocBuffer](printer, node)


def _view(printer: Printer, node: Any) -> None:
    """Another type's name for the memory of a tile."""
    buffer, sources = node.buffer, viewed(node)
    if not sources or not _is_zero(buffer.ty.elem_offset):
        raise printer.unprintable(f"the view {buffer.name}", node)
    type_name, source = printer.type_name(str(buffer.ty.dtype), node), printer.name(sources[0])
    name = printer.names.declare(buffer, str(buffer.name))
    pointer = printer.pointer(regions.scope(buffer), type_name)
    printer.line(f"{pointer} const {name} = reinterpret_cast<{pointer}>({source});")


def _is_zero(expr: Any) -> bool:
    return expr is None or regions.constant(expr) == 0


def _vector_at(printer: Printer, buffer: Any, vector: str, place: Code) -> str:
    """The vector that begins at an element."""
    return f"*reinterpret_cast<{printer.pointer(regions.scope(buffer), vector)}>(&{place.text})"


def _vector_store(words: Words) -> StmtHandler:
    """A move of whole vectors: `*(uint4*)&a[i] = *(const uint4*)&b[j];`."""

    def handler(printer: Printer, node: Any) -> None:
        source = node.value
        if not isinstance(source, ir.TensorLoad):
            type_name = printer.type_name(printer.dtype(source), node)
            target = element(printer, node.buffer, _first(node.indices), Use("write", int(source.ty.dtype.lanes)))
            lvalue = _vector_at(printer, node.buffer, type_name, target)
            printer.line(f"{lvalue} = {printer.expr(source).text};")
            return
        lanes, bits = int(source.ty.dtype.lanes), int(source.ty.dtype.bits)
        vector = words.vectors.get(lanes * bits // 8)
        if vector is None:
            raise printer.unprintable(f"a vector of {lanes} × {bits} bits", node)
        target = element(printer, node.buffer, _first(node.indices), Use("write", lanes))
        value = element(printer, source.source, _first(source.indices), Use("read", lanes))
        load = printer.language.loads.get(str(source.source.name))
        if load is None or regions.scope(source.source) != regions.GLOBAL or printer.is_written(source.source):
            read = _vector_at(printer, source.source, f"const {vector}", value)
        else:
            printer.snippet(load)
            read = f"{load}<{vector}>(&{value.text})"
        printer.line(f"{_vector_at(printer, node.buffer, vector, target)} = {read};")

    return handler


def _vector_load(printer: Printer, node: Any) -> Code:
    """A pair of a thread's array, as an operand."""
    type_name = printer.type_name(printer.dtype(node), node)
    source = element(printer, node.source, _first(node.indices), Use("read", int(node.ty.dtype.lanes)))
    return Code(_vector_at(printer, node.source, f"const {type_name}", source), Precedence.UNARY)


def _aligned_move(words: Words) -> StmtHandler:
    """A move of whole vectors that falls back to elements: one call in place of a branch and a loop."""

    def handler(printer: Printer, node: Any) -> None:
        if node.attr_key == SHIFTED_MOVE:
            _shifted_move(printer, node, words)
            return
        if node.attr_key != ALIGNED_MOVE:
            STATEMENTS[S.AttrStmt](printer, node)
            return
        flag, store = node.body.condition, node.body.then_case
        source = store.value
        lanes, bits = int(source.ty.dtype.lanes), int(source.ty.dtype.bits)
        vector = words.vectors.get(lanes * bits // 8)
        if vector is None:
            raise printer.unprintable(f"a vector of {lanes} × {bits} bits", node)
        target = element(printer, store.buffer, _first(store.indices), Use("write", lanes))
        value = element(printer, source.source, _first(source.indices), Use("read", lanes))
        aligned = printer.expr(flag)
        if regions.scope(store.buffer) == regions.LOCAL:
            printer.snippet("tile_load")
            lvalue = _vector_at(printer, store.buffer, vector, target)
            printer.line(f"{lvalue} = tile_load<{vector}>(&{value.text}, {aligned.text});")
        else:
            printer.snippet("tile_store")
            printer.line(f"tile_store<{vector}>(&{target.text}, &{value.text}, {aligned.text});")

    return handler


def _shifted_move(printer: Printer, node: Any, words: Words) -> None:
    """The load of a vector out of two: one call in place of a loop."""
    store = node.body.body
    lanes = int(node.body.extent.value)
    vector = words.vectors[lanes * int(store.value.ty.dtype.bits) // 8]

    def first(indices: Any) -> list[Any]:
        zero = {node.body.loop_var: E.IntImm(node.body.loop_var.ty, 0)}
        return [Analyzer().simplify(substitute(index, zero)) for index in indices]

    target = element(printer, store.buffer, first(store.indices), Use("write", lanes))
    value = element(printer, store.value.source, first(store.value.indices), Use("read", lanes))
    shift = printer.expr(node.value)
    printer.snippet("tile_load_shifted")
    lvalue = _vector_at(printer, store.buffer, vector, target)
    printer.line(f"{lvalue} = tile_load_shifted<{vector}>(&{value.text}, {shift.text});")


def _first(indices: Any) -> list[Any]:
    return [index.base if isinstance(index, E.Ramp) else index for index in indices]


def _atomic(printer: Printer, node: Any) -> Code:
    return _ordered(printer, node, snippet_call(f"tile_atomic_{node.attrs['kind']}")(printer, node))


def _call_extern(printer: Printer, node: Any) -> Code:
    """A call of a function that text of the author defines."""
    name, *arguments = node.args
    return call(str(name.value), *map(printer.expr, arguments))


def _shuffle(name: str) -> ExprHandler:
    def handler(printer: Printer, node: Any) -> Code:
        *arguments, mask = node.args
        require_all_lanes(printer, node, mask)
        printer.snippet(name)
        return call(name, *map(printer.expr, arguments))

    return handler


def _atomic_load(printer: Printer, node: Any) -> Code:
    printer.snippet("tile_atomic_load")
    return _ordered(printer, node, call("tile_atomic_load", printer.expr(node.args[0])))


def _atomic_store(printer: Printer, node: Any) -> Code:
    printer.snippet("tile_atomic_store")
    return _ordered(printer, node, call("tile_atomic_store", *map(printer.expr, node.args)))


def _ordered(printer: Printer, node: Any, code: Code) -> Code:
    """`code`, which no other access of this thread passes, unless its memory order is relaxed."""
    if int(node.attrs.get("memory_order", 0)) == 0:
        return code
    printer.snippet("tile_ordered")
    return call("tile_ordered", Code(f"[&] {{ return {code.text}; }}"))


def _reinterpret(printer: Printer, node: Any) -> Code:
    printer.snippet("tile_reinterpret")
    types = [printer.type_name(printer.dtype(node), node)]
    given = as_dtype(printer.dtype(node.args[0]))
    if given.is_integer and given.bits * given.lanes < _INT_BITS:
        # C computes with narrow integers as int, so the type of an expression does not tell which they are.
        types.append(printer.type_name(given, node))
    return call(f"tile_reinterpret<{', '.join(types)}>", printer.expr(node.args[0]))


_CALLS: Mapping[str, ExprHandler] = {
    "tirx.reinterpret": _reinterpret,
    "tile.shuffle_xor": snippet_call("tile_shuffle_xor"),
    **{f"tile.shfl_{kind}": _shuffle(f"tile_shfl_{kind}") for kind in ("sync", "xor", "up", "down")},
    "tirx.call_extern": _call_extern,
    "tirx.call_pure_extern": _call_extern,
    messages.PRINT_ELEMENT: messages.print_element,
    "tile.atomic_load": _atomic_load,
    "tile.atomic_store": _atomic_store,
    **{f"tile.warp_reduce_{kind}": snippet_call(f"tile_warp_reduce_{kind}") for kind in COMBINATIONS},
    IS_ALIGNED: snippet_call("tile_is_aligned"),
    "tile.atomic_rmw": _atomic,
    "tile.max": snippet_call("tile_max"),
    "tile.min": snippet_call("tile_min"),
    "tile.round": snippet_call("tile_round"),
    "tile.fmod": Function({"float32": "fmodf", "float64": "fmod"}),
    "tile.fma": Function({"float32": "fmaf", "float64": "fma"}),
    "tile.maxnum": Function({"float32": "fmaxf", "float64": "fmax"}),
    "tile.minnum": Function({"float32": "fminf", "float64": "fmin"}),
    "tirx.rsqrt": Function({"float32": "rsqrtf", "float64": "rsqrt"}),
}
