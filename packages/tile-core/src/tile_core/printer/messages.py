"""Printed lines and assertions in the C++ dialects of GPUs: `printf`, and a function that does not return.

A line looks as it does in the interpreter (`ops/print.py: line`); digits of a float are those of `%g`, enough to tell
its neighbours apart for all but a few values.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tile_core.ir.asserts import number_of, text_of
from tile_core.printer.language import Snippet
from tile_core.printer.precedence import Code, call, cast, conditional, prefix

if TYPE_CHECKING:
    from tile_core.printer.printer import Printer

PRINT_ELEMENT = "tile.print_element"
PRINTF, FAIL = "printf", "tile_assertion_failed"

_FORMATS: Mapping[str, tuple[str, str]] = {
    **dict.fromkeys(("int8", "int16", "int32"), ("%d", "int")),
    **dict.fromkeys(("uint8", "uint16", "uint32"), ("%u", "unsigned")),
    "int64": ("%lld", "long long"),
    "uint64": ("%llu", "unsigned long long"),
    "float32": ("%.8g", "double"),
    "float64": ("%.16g", "double"),
}


def text_literal(text: str) -> str:
    """`text` as a string literal of C++."""
    return json.dumps(text, ensure_ascii=False)


def _value(printer: Printer, node: Any) -> tuple[str, Code]:
    """The conversion of one value and the argument that it takes."""
    dtype, code = printer.dtype(node), printer.expr(node)
    if dtype == "bool":
        return "%s", conditional(code, Code('"True"'), Code('"False"'))
    if dtype in _FORMATS:
        conversion, kind = _FORMATS[dtype]
        return conversion, cast(kind, code)
    if dtype in printer.language.types and "float" in dtype:
        return "%g", cast("double", cast("float", code))
    raise printer.unprintable(f"printing a value of dtype {dtype}", node)


def print_element(printer: Printer, node: Any) -> Code:
    """A call of `printf`: `message: A[%d] = %.8g`, i, a."""
    printer.snippet(PRINTF)
    message, name = (str(node.attrs[key]).replace("%", "%%") for key in ("message", "name"))
    if not node.args:
        return call(PRINTF, Code(text_literal(f"{message}\n")))
    value, *indices = (_value(printer, argument) for argument in node.args)
    place = f"[{', '.join(conversion for conversion, _code in indices)}]" if indices else ""
    line = f"{message}{': ' if message else ''}{name}{place} = {value[0]}\n"
    return call(PRINTF, Code(text_literal(line)), *(code for _conversion, code in indices), value[1])


def assertion(printer: Printer, node: Any) -> None:
    """`if (!(condition)) tile_assertion_failed("text", number);`."""
    printer.snippet(FAIL)
    message = "".join(str(part.value) for part in node.message_parts)
    failed = call(FAIL, Code(text_literal(text_of(message))), Code(str(number_of(message))))
    printer.line(f"if ({prefix('!', printer.expr(node.condition)).text}) {failed.text};")


SNIPPETS: Mapping[str, Snippet] = {
    PRINTF: Snippet(
        'extern "C" __device__ int printf(const char* format, ...);',
        emulated="#include <stdio.h>",
    ),
    FAIL: Snippet(
        """
// Prints what failed, and stops the kernel.
__device__ __attribute__((noinline)) void tile_assertion_failed(const char* text, int number) {
  printf("assertion %d failed: %s\\n", number, text);
  __builtin_trap();
}
""",
        needs=(PRINTF,),
        emulated="""
[[noreturn]] inline void tile_assertion_failed(const char* text, int number) { tile::assertion_failed(text, number); }
""",
    ),
}
