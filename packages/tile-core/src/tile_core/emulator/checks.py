"""Any language of the printer with checked accesses: what runs under `TILE_EMULATE_CHECK`.

The printed form of an access becomes an accessor of `tile_checks.h` that gets, beside the element, the indices and
extents, and the site: the buffer and the author's line. Everything else is printed as the backend prints it. A backend
needs nothing of its own for this: accesses go through `element`, and an operation through its handler.

The compiler adds checks of what C leaves undefined and a device's compiler takes for impossible: signed integers that
leave their range, and shifts by more than a type has bits (`build.CHECKED`, `source/undefined.cpp`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tvm import ir, tirx
from tvm.tirx import stmt as S

from tile_core.errors.base import SourceSpan
from tile_core.ir import regions
from tile_core.ir.views import viewed
from tile_core.passes.pack_narrow import REPLACE_HALF
from tile_core.passes.vector_units import ALIGNED_MOVE, SHIFTED_MOVE
from tile_core.printer.expressions import offset, plain_element
from tile_core.printer.language import ExprHandler, Language, StmtHandler, Use
from tile_core.printer.precedence import Code, Precedence
from tile_core.printer.printer import EFFECT

if TYPE_CHECKING:
    from tile_core.printer.printer import Printer

_ADDRESS_OF = "tirx.address_of"
_STORE, _UPDATE = "tile.atomic_store", "tile.atomic_rmw"
_SHARED_BY_THREADS = (regions.GLOBAL, *regions.SHARED)
_MOST_SITES = 1 << 15
# The operations that work at an address are atomic.
_USES = {
    "read": "tile::kRead",
    "write": "tile::kWrite",
    "address": "tile::kAtomic",
    "begin": "tile::kBegin",
    "continue": "tile::kContinue",
    "lent": "tile::kLent",
}
_ORDERED = "tile::kOrdered"
_REPLACE, _ORDERED_REPLACE = "tile::kReplace", "tile::kOrderedReplace"


@dataclass(frozen=True)
class Site:
    """A place of the author's source and the buffer that is used there; no name where a line only waits.

    `needs_write`: global memory is used that holds nothing until the kernel writes it.
    """

    buffer: str
    span: SourceSpan | None
    needs_write: bool = False


@dataclass
class Sites:
    """The sites of one artifact, numbered in the order of printing."""

    _numbers: dict[Site, int] = field(default_factory=dict)

    @property
    def listed(self) -> list[Site]:
        """Site by number."""
        return list(self._numbers)

    def number(self, buffer: str, span: SourceSpan | None, *, needs_write: bool = False) -> int:
        """The number of a site."""
        number = self._numbers.setdefault(Site(buffer, span, needs_write), len(self._numbers))
        assert number < _MOST_SITES
        return number


def checked(language: Language, sites: Sites, fresh: Collection[ir.Var] = ()) -> Language:
    """`language` with checked accesses, whose sites are added to `sites`.

    `fresh` are the buffers in global memory that hold nothing when a call begins: workspaces, and outputs that the call
    allocates.
    """
    checker = _Checker(language, sites, fresh)
    return language.extend(
        language.name,
        element=checker.element,
        place=checker.place,
        statements={S.AllocBuffer: checker.allocate, **checker.views(language), **_moves(language)},
        calls={name: checker.operation(name, call) for name, call in language.calls.items() if name != _ADDRESS_OF},
        header=(*language.header, '#include "tile_checks.h"'),
        restrict="",
        # The compiler adds checks of its own: an overflow that they find is a fault of the printer.
        wraps_stored=True,
    )


def _moves(language: Language) -> dict[type, StmtHandler]:
    """Moves that the language prints as one call, as the branch or loop that they mean: that is what is accessed."""
    handler = language.statements.get(S.AttrStmt)
    if handler is None:
        return {}

    def attribute(printer: Printer, node: Any) -> None:
        if node.attr_key in (ALIGNED_MOVE, SHIFTED_MOVE):
            printer.stmt(node.body)
        else:
            handler(printer, node)

    return {S.AttrStmt: attribute}


class _Checker:
    def __init__(self, language: Language, sites: Sites, fresh: Collection[ir.Var]) -> None:
        self._allocate = language.statements[S.AllocBuffer]
        self._sites = sites
        self._fresh = set(fresh)
        self._only_stores = False
        self._written: dict[Any, str] = {}
        self._has_effect = [False]
        self._order = 0

    def allocate(self, printer: Printer, node: Any) -> None:
        """The allocation, and for an array of one thread the flags that say what is written."""
        self._allocate(printer, node)
        buffer = node.buffer
        if regions.scope(buffer) in _SHARED_BY_THREADS:
            return
        name = printer.names.declare(object(), f"{buffer.name}_written")
        count = 1
        for extent in buffer.ty.shape:
            count *= regions.constant(extent) or 1
        self._written[buffer] = name
        printer.line(f"tile::Written {name}[{count}] = {{}};")
        printer.line(f"tile::declared({printer.name(buffer)});")

    def views(self, language: Language) -> dict[type, StmtHandler]:
        """Views as the language prints them. What is written through one is not known of its array of one thread."""
        view = language.statements.get(S.DeclBuffer)
        if view is None:
            return {}

        def declare(printer: Printer, node: Any) -> None:
            view(printer, node)
            for source in viewed(node):
                self._written.pop(source, None)
                if source in self._fresh:
                    self._fresh.add(node.buffer)

        return {S.DeclBuffer: declare}

    def element(self, printer: Printer, buffer: Any, indices: Any, use: Use) -> Code:
        """An element through its accessor. An address that only a pure operation sees is no access."""
        is_private = regions.scope(buffer) not in _SHARED_BY_THREADS
        if (use.kind == "address" and not self._has_effect[-1]) or (is_private and buffer not in self._written):
            return plain_element(printer, buffer, indices)
        scalar = printer.is_scalar(buffer)
        at = Code("0") if scalar else offset(printer, buffer, indices)
        looks = use.kind == "read" or (use.kind == "address" and not self._only_stores)
        site = self._sites.number(str(buffer.name), printer.span, needs_write=looks and buffer in self._fresh)
        place = "tile::Place<0>{}" if scalar else _place(printer, indices, buffer.ty.shape)
        name = f"&{printer.name(buffer)}" if scalar else printer.name(buffer)
        accessor, flags = "memory", ""
        if is_private:
            accessor, flags = "local", f"{self._written[buffer]}, "
        text = f"tile::{accessor}<{self._use(use)}, {use.lanes}>({name}, {flags}{at.text}, {site}, {place})"
        return Code(text, Precedence.POSTFIX)

    def place(self, printer: Printer, buffer: Any, indices: Any) -> Code:
        """The address of an element and what it is called, for an operation that says itself what it accesses."""
        site = self._sites.number(str(buffer.name), printer.span, needs_write=buffer in self._fresh)
        at = offset(printer, buffer, indices).text
        text = f"tile::spot({printer.name(buffer)}, {at}, {site}, {_place(printer, indices, buffer.ty.shape)})"
        return Code(text, Precedence.POSTFIX)

    def _use(self, use: Use) -> str:
        if use.kind != "address":
            return _USES[use.kind]
        if self._only_stores:
            return _ORDERED_REPLACE if self._order else _REPLACE
        return _ORDERED if self._order else _USES[use.kind]

    def operation(self, name: str, handler: ExprHandler) -> ExprHandler:
        """An operation that says where it is before it does something that others see, or waits for them."""

        def wrapped(printer: Printer, node: Any) -> Code:
            has_effect = _has_effect(node.op)
            self._has_effect.append(has_effect)
            outer = self._order, self._only_stores
            attrs = node.attrs or {}
            self._order, self._only_stores = int(attrs.get("memory_order", 0)), _only_stores(name, attrs)
            code = handler(printer, node)
            self._has_effect.pop()
            self._order, self._only_stores = outer
            if not has_effect:
                return code
            return Code(f"(tile::here({self._sites.number('', printer.span)}), {code.text})")

        return wrapped


def _has_effect(op: ir.Op) -> bool:
    pure = (tirx.CallEffectKind.Pure.value, tirx.CallEffectKind.ExprAnnotation.value)
    return not op.has_attr(EFFECT) or op.get_attr(EFFECT) not in pure


def _only_stores(name: str, attrs: Mapping[str, Any]) -> bool:
    """Whether an atomic operation looks at nothing of what was there, but to leave the other half of a byte alone."""
    return name == _STORE or (name == _UPDATE and attrs.get("kind") == REPLACE_HALF)


def _place(printer: Printer, indices: Any, shape: Any) -> str:
    rows = (", ".join(f"int64_t({printer.expr(value).text})" for value in values) for values in (indices, shape))
    inner = ", ".join(f"{{{row}}}" for row in rows)
    return f"tile::Place<{len(shape)}>{{{inner}}}"
