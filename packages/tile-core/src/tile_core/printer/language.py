"""A language as data: its words and, for every node and operation it can say, a small handler.

Printers of different languages share `printer.py` and differ in one `Language` value, made from another by `extend`.
What a language does not list is refused, never guessed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from tile_core.printer.precedence import Code, call

if TYPE_CHECKING:
    from tile_core.ir.launch import Launch
    from tile_core.printer.printer import Parameter, Printer

Node: TypeAlias = Any
"""A TVM node; TVM has no types for a checker."""
ExprHandler = Callable[["Printer", Node], Code]
StmtHandler = Callable[["Printer", Node], None]


@dataclass(frozen=True)
class Use:
    """What an access is for: it reads or writes `lanes` elements, or takes the address of one.

    An asynchronous operation may `begin` to write elements of one thread, or `continue` with what another has begun;
    they may be `lent` to one that reads them until it ends.
    """

    kind: Literal["read", "write", "address", "begin", "continue", "lent"]
    lanes: int = 1


READ, WRITE, ADDRESS = Use("read"), Use("write"), Use("address")
ElementHandler = Callable[["Printer", Node, Node, Use], Code]
"""From buffer and indices to the lvalue of an element."""
ParameterHandler = Callable[["Printer", "Parameter", int, bool], tuple[str, str]]
"""From a parameter, its number and whether the function may write to it, to its declaration and the body's first line.

That line may be empty.
"""


@dataclass(frozen=True)
class Function:
    """A call printed as a function call; the name depends on the dtype of the first argument."""

    names: Mapping[str, str]

    def __call__(self, printer: Printer, node: Node) -> Code:
        """The call as text."""
        name = self.names.get(printer.dtype(node.args[0]))
        if name is None:
            raise printer.unprintable(printer.describe(node), node)
        return call(name, *map(printer.expr, node.args))


@dataclass(frozen=True)
class Helper:
    """A function that the printed source defines when it is used, once a dtype.

    `text` has `{inline}`, `{name}`, `{type}`, `{unsigned}` for signed integers, and, where `parts` gives them, other
    names by dtype.
    """

    name: str
    text: str
    parts: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    def __call__(self, printer: Printer, node: Node) -> Code:
        """The call as text; its definition joins the source."""
        dtype = printer.computed_in(printer.dtype(node.args[0]))
        return printer.narrowed(call(printer.helper(self, dtype, node), *map(printer.expr, node.args)), node)

    def define(self, name: str, dtype: str, language: Language) -> str | None:
        """The definition for `dtype`, `None` where the helper has no form for it."""
        if any(dtype not in names for names in self.parts.values()):
            return None
        words = {key: names[dtype] for key, names in self.parts.items()}
        if dtype.startswith("int"):
            words["unsigned"] = language.types[f"u{dtype}"]
        return self.text.format(inline=language.inline, name=name, type=language.types[dtype], **words)


@dataclass(frozen=True)
class Snippet:
    """Text that joins the source when a handler asks for it by name, after the snippets that it needs.

    `emulated` is what the same function does in C++ on the host, for text that only the device's compiler reads: an
    instruction has its printed form and its executable meaning in one place.
    """

    text: str
    needs: tuple[str, ...] = ()
    emulated: str | None = None


@dataclass(frozen=True)
class Forms:
    """A handler with a form of its own on the host, for what is not a snippet of one text."""

    device: ExprHandler
    host: ExprHandler

    def __call__(self, printer: Printer, node: Node) -> Code:
        """The form for the device."""
        return self.device(printer, node)


@dataclass(frozen=True, kw_only=True)
class Language:
    """The vocabulary and the handlers of one C-family language.

    * `types`: dtype to type name; `suffixes`: dtype to the suffix of its literals; `literals`: dtype to a template with
      `{value}` (default `{value}` and the suffix).
    * `scopes`: storage scope to the qualifier of its declaration; a scope that is not listed is refused.
    * `spaces`: storage scope to what stands before the pointee of its pointers, where address spaces are types.
    * `loops`: kind of loop to a line before it (empty for none), followed by the factor that the author gives an
      unrolled one, in place of a number at its end; a kind that is not listed is refused.
    * `attributes`: keys of attributes that mean nothing to this language, whose bodies are printed as they are.
    * `expressions`, `statements`: node class to handler; `calls`: operation to handler.
    * `snippets`: definitions that handlers ask for; a snippet has the name of the function that it defines.
    * `type_snippets`: of a dtype, the snippet that its type needs.
    * `helpers`: those that handlers of `expressions` use, so that no variable takes their names.
    * `clusters`: whether blocks can be launched in clusters.
    * `vector_calls`: the operations whose result may be a vector.
    * `launch`: prints a launch nest; `vector_load`, `vector_store`: accesses of more than one lane; `loads`: tensors to
      the snippets that load vectors of them where nothing is stored to them.
    * `element`: prints an element of a buffer in place of `name[offset]`; `place`: the address of an element for an
      operation that accounts for its accesses itself, in place of `&name[offset]`.
    * `wraps_stored`: integers that overflow are computed as unsigned ones also where they are only stored.
    * `unit`: what `{unit}` stands for in the head of a kernel, where kernels are for different units of a processor.
    * `descriptor`: the declaration of a parameter that is a descriptor, with `{name}`, and the snippet of its type.
    * `parameter`: declares any other parameter, in place of `type* name`; `built_in`: what a kernel declares behind its
      parameters, for the device to fill in.
    """

    name: str
    types: Mapping[str, str]
    suffixes: Mapping[str, str] = field(default_factory=dict)
    literals: Mapping[str, str] = field(default_factory=dict)
    infinity: str = "INFINITY"
    nan: str = "NAN"
    scopes: Mapping[str, str] = field(default_factory=dict)
    spaces: Mapping[str, str] = field(default_factory=dict)
    loops: Mapping[int, str] = field(default_factory=dict)
    attributes: frozenset[str] = frozenset()
    expressions: Mapping[type, ExprHandler] = field(default_factory=dict)
    statements: Mapping[type, StmtHandler] = field(default_factory=dict)
    calls: Mapping[str, ExprHandler] = field(default_factory=dict)
    launch: Callable[[Printer, Launch], None] | None = None
    vector_load: ExprHandler | None = None
    vector_store: StmtHandler | None = None
    loads: Mapping[str, str] = field(default_factory=dict)
    element: ElementHandler | None = None
    place: Callable[[Printer, Node, Node], Code] | None = None
    descriptor: tuple[str, str] | None = None
    parameter: ParameterHandler | None = None
    built_in: tuple[str, ...] = ()
    unit: Callable[[Any], str] | None = None
    snippets: Mapping[str, Snippet] = field(default_factory=dict)
    type_snippets: Mapping[str, str] = field(default_factory=dict)
    helpers: tuple[Helper, ...] = ()
    vector_calls: frozenset[str] = frozenset()
    clusters: bool = False
    wraps_stored: bool = False
    header: tuple[str, ...] = ()
    function: str = "void {name}({parameters})"
    inline: str = "static inline"
    const: str = "const "
    restrict: str = ""
    comment: str = "//"
    keywords: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        for item in fields(self):
            value = getattr(self, item.name)
            if isinstance(value, Mapping):
                object.__setattr__(self, item.name, MappingProxyType(dict(value)))

    def extend(self, name: str, **changes: Any) -> Language:
        """Another language: mappings and sets are added to, everything else is replaced."""
        merged = {key: self._merge(key, value) for key, value in changes.items()}
        return replace(self, name=name, **merged)

    def on_the_host(self) -> Language:
        """This language as the emulator compiles it: what has a meaning of its own on the host is replaced by it."""
        emulated = {name: snippet for name, snippet in self.snippets.items() if snippet.emulated is not None}
        replaced = {
            name: Snippet(snippet.emulated or "", tuple(needed for needed in snippet.needs if needed in emulated))
            for name, snippet in emulated.items()
        }
        hosts = {name: handler.host for name, handler in self.calls.items() if isinstance(handler, Forms)}
        return self.extend(self.name, snippets=replaced, calls=hosts)

    def _merge(self, key: str, value: Any) -> Any:
        own = getattr(self, key)
        if isinstance(own, Mapping):
            return {**own, **value}
        return own | value if isinstance(own, frozenset) else value

    @property
    def reserved(self) -> frozenset[str]:
        """Words that no variable may have."""
        words = {*self.keywords, *self.snippets}
        words.update(word for name in self.types.values() for word in name.split())
        for handler in (*self.calls.values(), *self.helpers):
            if isinstance(handler, Function):
                words.update(handler.names.values())
            elif isinstance(handler, Helper):
                words.update(f"{handler.name}_{dtype}" for dtype in self.types)
        return frozenset(words)

    def __hash__(self) -> int:
        return hash(self.name)
