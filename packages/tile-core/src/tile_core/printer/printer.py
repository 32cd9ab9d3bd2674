"""Prints a lowered function as C-family source, for any `Language`.

The printer knows scopes, names, indentation and source lines; everything that a language can say differently is a
handler in its tables.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Literal

from tvm import ir, tirx
from tvm.tirx import stmt as S

from tile_core.errors.base import SourceSpan
from tile_core.errors.plugins import UnprintableError
from tile_core.ir import visit
from tile_core.ir.descriptors import is_descriptor
from tile_core.ir.launch import from_stmt, is_launch
from tile_core.ir.regions import GLOBAL, VAR, scope
from tile_core.ir.spans import from_tvm
from tile_core.printer.intervals import Intervals, of_size
from tile_core.printer.language import Helper, Language, Node
from tile_core.printer.names import Names, legal
from tile_core.printer.overflow import Overflow
from tile_core.printer.precedence import Code, cast

INDENT = "  "
EFFECT = "TCallEffectKind"
PROMOTED = frozenset({"bool", "int8", "int16", "uint8", "uint16"})
"""The dtypes that C computes in `int`: an operation on them may leave their range."""
_DECOMPOSE = "a pass of the backend has to decompose it, or the backend's printer has to list it"
_OTHER_DTYPE = "use a dtype of this target; values of four bits can be kept two in a uint8"


@dataclass(frozen=True)
class Parameter:
    """A parameter of the printed function.

    `position` is that of the parameter of the tile program; `axis` says which extent or stride of it a `size` is.
    """

    name: str
    dtype: str
    kind: Literal["buffer", "scalar", "descriptor", "extent", "stride"]
    position: int
    axis: int = 0


@dataclass(frozen=True)
class PrintedFunction:
    """Source text and how to call it: the program's parameters in order, then the sizes that only shapes tell.

    Sizes that the function does not use are left out.
    """

    name: str
    parameters: tuple[Parameter, ...]
    definition: str
    header: tuple[str, ...] = ()
    helpers: Mapping[str, str] = field(default_factory=dict)

    @property
    def source(self) -> str:
        """The function as a source of its own."""
        return source_of([self])


def source_of(functions: Sequence[PrintedFunction]) -> str:
    """One source of several functions: headers and helpers once each."""
    header = dict.fromkeys(line for function in functions for line in function.header)
    helpers = {name: text for function in functions for name, text in function.helpers.items()}
    parts = [*header, "", *helpers.values(), *(function.definition for function in functions)]
    return "\n".join(parts).lstrip("\n") + "\n"


def print_function(
    func: tirx.PrimFunc, language: Language, *, target: object = "", source_lines: bool = False
) -> PrintedFunction:
    """`func` in `language`.

    `target` is named in errors; with `source_lines` every statement ends in a comment with the author's file and line.

    Raises:
        UnprintableError: the language has no form for something in `func`; the error names it, the target and the line.
    """
    printer = Printer(language, target=target, source_lines=source_lines)
    try:
        return printer.function(func)
    except RecursionError:
        raise printer.unprintable("an expression that is nested this deeply; give parts of it names") from None


class Printer:
    """The state of printing one function. Handlers get it as their first argument."""

    def __init__(self, language: Language, *, target: object = "", source_lines: bool = False) -> None:
        self.language = language
        self.target = str(target)
        self.names = Names(language.reserved)
        self.intervals = Intervals()
        self.overflow = Overflow(self.intervals)
        self._source_lines = source_lines
        self._lines: list[str] = []
        self._depth = 0
        self._helpers: dict[str, str] = {}
        self._span: ir.Span | None = None
        self._noted: tuple[str, int] | None = None
        self._written: frozenset[Node] = frozenset()
        self._inlined: dict[Node, Code] = {}
        self._conditional = 0
        self.symbol = ""
        """The name of the function."""
        self.declarations: Mapping[str, str] = {}
        """The function's parameters by their names, as they are declared, whether they are used or not."""

    @property
    def span(self) -> SourceSpan | None:
        """The author's place of the statement that is being printed."""
        return from_tvm(self._span)

    # -- the function ------------------------------------------------------------------------------------------------

    def function(self, func: tirx.PrimFunc) -> PrintedFunction:
        """The whole source: header, helpers that are used, and the function."""
        self._span = func.span or func.body.span
        self._written = frozenset(_written(func.body))
        name = self.symbol = self._function_name(func)
        declared = self._parameters(func)
        self.declarations = {parameter.name: self._declaration(func, parameter) for parameter in declared}
        with self.indented():
            self.stmt(func.body)
        parameters = tuple(p for p in declared if p.kind not in ("extent", "stride") or self.names.is_used(p.name))
        texts, first = self._declared(func, parameters)
        head = self.language.function.format(name=name, parameters=", ".join([*texts, *self.language.built_in]))
        definition = "\n".join([f"{head} {{", *first, *self._lines, "}"])
        return PrintedFunction(name, parameters, definition, self.language.header, dict(self._helpers))

    def _declared(self, func: tirx.PrimFunc, parameters: Sequence[Parameter]) -> tuple[list[str], list[str]]:
        """The declarations of the parameters that are used, and the lines that some of them need in the body."""
        declare = self.language.parameter
        if declare is None:
            return [self.declarations[parameter.name] for parameter in parameters], []
        found = [
            declare(self, parameter, number, self.is_written(func.params[parameter.position]))
            for number, parameter in enumerate(parameters)
        ]
        return [text for text, _line in found], [f"{INDENT}{line}" for _text, line in found if line]

    def _function_name(self, func: tirx.PrimFunc) -> str:
        symbol = None if func.attrs is None else func.attrs.get("global_symbol")
        # The suffix keeps the kernel apart from its host entry, and from names that C reserves, such as `main`.
        return self.names.declare(func, f"{legal('main' if symbol is None else str(symbol))}_kernel")

    def _parameters(self, func: tirx.PrimFunc) -> list[Parameter]:
        found: list[Parameter] = []
        for position, var in enumerate(func.params):
            name = self.names.declare(var, str(var.name))
            found.append(_parameter(var, name, position))
        for position, buffer in enumerate(func.params):
            if isinstance(buffer.ty, tirx.BufferType):
                found += self._sizes(buffer, position)
        sizes = {
            size for buffer in func.params if isinstance(buffer.ty, tirx.BufferType) for size in _named_sizes(buffer)
        }
        for var in func.params:
            if not isinstance(var.ty, tirx.BufferType) and var not in sizes:
                self.overflow.bind(var)
        return found

    def _sizes(self, buffer: Node, position: int) -> Iterator[Parameter]:
        sizes: tuple[tuple[Literal["extent", "stride"], Node], ...]
        sizes = (("extent", buffer.ty.shape), ("stride", buffer.ty.strides))
        for kind, values in sizes:
            for axis, var in enumerate(values):
                if isinstance(var, ir.Var) and not self.names.is_declared(var):
                    dtype = str(var.ty.dtype)
                    if kind == "extent":
                        self.intervals.bind(var, of_size(var))
                    yield Parameter(self.names.declare(var, str(var.name)), dtype, kind, position, axis)

    def _declaration(self, func: tirx.PrimFunc, parameter: Parameter) -> str:
        if parameter.kind == "descriptor":
            return self._descriptor(parameter)
        if parameter.dtype not in self.language.types:
            what = f"the dtype {parameter.dtype} of parameter {parameter.name}"
            raise self.unprintable(what, remedy=_OTHER_DTYPE)
        type_name = self.type_name(parameter.dtype)
        if parameter.kind != "buffer":
            return f"{type_name} {parameter.name}"
        const = "" if self.is_written(func.params[parameter.position]) else self.language.const
        return f"{self.pointer(GLOBAL, f'{const}{type_name}')} {self.language.restrict}{parameter.name}"

    def pointer(self, storage_scope: str, type_name: str) -> str:
        """The type of pointers to `type_name` in memory of a scope."""
        return f"{self.language.spaces.get(storage_scope, '')}{type_name}*"

    def is_written(self, buffer: Node) -> bool:
        """Whether the function may store to the memory of a parameter."""
        return buffer in self._written

    def _descriptor(self, parameter: Parameter) -> str:
        if self.language.descriptor is None:
            raise self.unprintable(f"the descriptor {parameter.name}")
        declaration, type_name = self.language.descriptor
        self.snippet(type_name)
        return declaration.format(name=parameter.name)

    # -- lines -------------------------------------------------------------------------------------------------------

    def line(self, text: str) -> None:
        """One line at the current indentation, with the author's line as a comment where that was asked for."""
        self._lines.append(f"{INDENT * self._depth}{text}{self._note()}")

    def pragma(self, text: str) -> None:
        """A line without indentation or comment."""
        self._lines.append(text)

    def _note(self) -> str:
        span = from_tvm(self._span) if self._source_lines else None
        if span is None or (span.file, span.line) == self._noted:
            return ""
        self._noted = (span.file, span.line)
        return f"  {self.language.comment} {PurePath(span.file).name}:{span.line}"

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """`head { … }`, a scope for names."""
        self.line(f"{head} {{" if head else "{")
        with self.indented():
            yield
        self._lines.append(f"{INDENT * self._depth}}}")

    @contextmanager
    def indented(self) -> Iterator[None]:
        """One step deeper, a scope for names."""
        self._depth += 1
        with self.names.scope():
            yield
        self._depth -= 1

    @contextmanager
    def apart(self) -> Iterator[list[str]]:
        """The lines of a function of its own, for a language that moves part of a kernel there; see `define`."""
        lines, depth = self._lines, self._depth
        self._lines, self._depth = [], 1
        try:
            with self.names.scope():
                yield self._lines
        finally:
            self._lines, self._depth = lines, depth

    def reopen(self, head: str) -> None:
        """Join the closing brace of the last block with what follows: `} else {`."""
        self._lines.pop()
        self._lines.append(f"{INDENT * self._depth}}} {head} {{")

    def close(self) -> None:
        """A closing brace."""
        self._lines.append(f"{INDENT * self._depth}}}")

    # -- nodes -------------------------------------------------------------------------------------------------------

    def stmt(self, node: Node) -> None:
        """Print a statement."""
        outer = self._span
        self._span = node.span or outer
        if isinstance(node, S.For) and is_launch(node):
            self._launch(node)
        else:
            handler = self.language.statements.get(type(node))
            if handler is None:
                raise self.unprintable(f"the statement {type(node).__name__}", node)
            handler(self, node)
        self._span = outer

    def _launch(self, node: S.For) -> None:
        if self.language.launch is None:
            raise self.unprintable("a kernel launch", node)
        self.language.launch(self, from_stmt(node))

    def expr(self, node: Node) -> Code:
        """An expression as text with its precedence."""
        handler = self.language.expressions.get(type(node))
        if handler is None:
            raise self.unprintable(self.describe(node), node)
        return handler(self, node)

    @contextmanager
    def conditional(self) -> Iterator[None]:
        """Around what may not be evaluated, or more than once: a branch, the right side of `&&`, a loop's condition."""
        self._conditional += 1
        try:
            yield
        finally:
            self._conditional -= 1

    def let(self, var: Node, value: Node) -> None:
        """Give `var` its value for the rest of an expression.

        It becomes a variable before the statement. Where the expression is conditional, evaluating its value early
        could read out of bounds, so it stands for the text of its value there: expressions are pure.
        """
        with self.overflow.seen():
            code = self.expr(value)
        self.overflow.bind(var, value)
        if self._conditional:
            self._inlined[var] = code
            return
        type_name = self.type_name(self.dtype(var), value)
        name = self.names.declare(var, str(var.name))
        self.line(f"{self.language.const}{type_name} {name} = {code.text};")

    def variable(self, var: Node) -> Code:
        """A variable in scope, as an expression."""
        return self._inlined[var] if var in self._inlined else Code(self.name(var))

    def call(self, node: Node) -> Code:
        """A call, by the table of operations."""
        handler = self.language.calls.get(str(node.op.name)) if isinstance(node.op, ir.Op) else None
        if handler is None:
            raise self.unprintable(self.describe(node), node)
        return handler(self, node)

    # -- words -------------------------------------------------------------------------------------------------------

    def dtype(self, node: Node) -> str:
        """The dtype of an expression."""
        return str(node.ty.dtype)

    def type_name(self, dtype: str, node: Node = None) -> str:
        """The language's name of a dtype."""
        if dtype not in self.language.types:
            raise self.unprintable(f"the dtype {dtype}", node, _OTHER_DTYPE)
        if dtype in self.language.type_snippets:
            self.snippet(self.language.type_snippets[dtype])
        return self.language.types[dtype]

    def name(self, var: Node) -> str:
        """The name of a variable that is in scope."""
        name = self.names.get(var)
        if name is None:
            raise self.unprintable(f"the variable {var.name}, which nothing in scope defines", var)
        return name

    def helper(self, helper: Helper, dtype: str, node: Node) -> str:
        """The name of a helper for `dtype`; its definition joins the source. `node` is what needs it, for messages."""
        name = f"{helper.name}_{dtype}"
        if name not in self._helpers:
            self.type_name(dtype, node)
            text = helper.define(name, dtype, self.language)
            if text is None:
                raise self.unprintable(self.describe(node), node)
            self._helpers[name] = f"{text}\n"
        return name

    def snippet(self, name: str) -> None:
        """Add the snippet `name` to the source, after those that it needs."""
        if name in self._helpers:
            return
        snippet = self.language.snippets[name]
        for needed in snippet.needs:
            self.snippet(needed)
        self._helpers[name] = f"{snippet.text.strip()}\n"

    def define(self, name: str, text: str) -> None:
        """Let the definition of the function `name` join the source; `name` says all that `text` depends on."""
        assert self._helpers.setdefault(name, f"{text.strip()}\n") == f"{text.strip()}\n"

    def computed_in(self, dtype: str) -> str:
        """The dtype in which C computes on operands of `dtype`."""
        return "int32" if dtype in PROMOTED else dtype

    def narrowed(self, code: Code, node: Node) -> Code:
        """`code`, cast back to the dtype of `node` where C has computed it in `int`."""
        dtype = self.dtype(node)
        return cast(self.type_name(dtype, node), code) if dtype in PROMOTED else code

    def is_scalar(self, buffer: Node) -> bool:
        """Whether a buffer is a single variable, printed as one."""
        return scope(buffer) == VAR

    def nonnegative(self, node: Node) -> bool:
        """Whether an integer expression is known not to be negative."""
        return self.intervals.of(node).low >= 0

    # -- refusals ----------------------------------------------------------------------------------------------------

    def describe(self, node: Node) -> str:
        """What an expression is, for messages."""
        if isinstance(node, ir.Call) and isinstance(node.op, ir.Op):
            kinds = ", ".join(str(getattr(argument.ty, "dtype", argument.ty)) for argument in node.args)
            return f"the operation {str(node.op.name).removeprefix('tirx.')}({kinds})"
        dtype = getattr(getattr(node, "ty", None), "dtype", None)
        return f"the expression {type(node).__name__}" + (f" of dtype {dtype}" if dtype is not None else "")

    def unprintable(self, what: str, node: Node = None, remedy: str = _DECOMPOSE) -> UnprintableError:
        """The error for something that the language cannot say."""
        place = f" for target {self.target}" if self.target else ""
        span = getattr(node, "span", None) or self._span
        return UnprintableError(
            f"{self.language.name}{place} has no form for {what}",
            remedy=remedy,
            span=from_tvm(span),
        )


def _named_sizes(buffer: Node) -> list[Node]:
    return [var for size in (*buffer.ty.shape, *buffer.ty.strides) for var in visit.collect(size, ir.Var)]


def _parameter(var: Node, name: str, position: int) -> Parameter:
    if is_descriptor(var):
        return Parameter(name, "handle", "descriptor", position)
    kind: Literal["buffer", "scalar"] = "buffer" if isinstance(var.ty, tirx.BufferType) else "scalar"
    return Parameter(name, str(var.ty.dtype), kind, position)


def _written(body: Node) -> Iterator[Node]:
    """The buffers that a body may store to: stored to, or handed to a call that could."""
    for store in visit.collect(body, S.BufferStore):
        yield store.buffer
    for call in _effectful_calls(body):
        for argument in call.args:
            yield from (argument.source,) if isinstance(argument, ir.TensorLoad) and _takes_address(call) else ()
            yield from (argument,) if isinstance(argument, ir.Var) and isinstance(argument.ty, tirx.BufferType) else ()


def _effectful_calls(body: Node) -> list[Node]:
    """The calls under `body` but those inside of a pure one, which at most looks at an address."""
    pure = tirx.CallEffectKind.Pure.value
    inside = {
        hash(inner)
        for call in visit.collect(body, ir.Call)
        if isinstance(call.op, ir.Op) and call.op.has_attr(EFFECT) and call.op.get_attr(EFFECT) == pure
        for argument in call.args
        for inner in visit.collect(argument, ir.Call)
    }
    return [call for call in visit.collect(body, ir.Call) if hash(call) not in inside]


def _takes_address(call: Node) -> bool:
    return isinstance(call.op, ir.Op) and str(call.op.name) == "tirx.address_of"
