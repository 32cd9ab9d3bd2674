"""The syntax tree of a function.

The whole file is parsed once and the function found by name and first line, which keeps the columns that errors point
at and also works for cells, doctests and `python -c`, where `inspect.getsource` guesses or gives up.
"""

from __future__ import annotations

import ast
import linecache
import sys
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from tile_core.errors.frontend import SourceUnavailableError

COMMAND_LINE = "<string>"


@dataclass(frozen=True)
class FunctionSource:
    """A function's definition and the file name under which its lines are known."""

    file: str
    node: ast.FunctionDef


def function_source(func: Callable[..., Any], *, take: bool = False) -> FunctionSource:
    """Find the definition of `func`. With `take` the node is the caller's to change, and is not handed out again.

    Raises:
        SourceUnavailableError: no source text is known, or it is not the one that was compiled.
    """
    code = func.__code__
    lines = _lines(code.co_filename, func.__globals__)
    if not lines:
        raise SourceUnavailableError(
            f"the source of {func.__qualname__} in {code.co_filename} is not available",
            remedy="put the function in a file; for exec, register the text first: linecache.cache[name] = "
            "(len(text), None, text.splitlines(True), name), with the `name` given to compile()",
        )
    text = "".join(lines)
    # In a fresh tree if the node was taken out of the one that is kept.
    node = _definition(_functions(text), code) or _definition(_functions(text, fresh=True), code)
    if node is not None:
        if take:
            _parsed[text].remove(node)
        return FunctionSource(code.co_filename, node)
    raise SourceUnavailableError(
        f"line {code.co_firstlineno} of {code.co_filename} does not define {func.__qualname__} as it was compiled",
        remedy="decorate a plain `def`, not a lambda or an async function; if the file was edited, import it again",
    )


def _definition(functions: list[Function], code: types.CodeType) -> ast.FunctionDef | None:
    """The definition that `code` was compiled from."""
    for node in functions:
        if (
            isinstance(node, ast.FunctionDef)
            and node.name == code.co_name
            and _first_line(node) == code.co_firstlineno
            and _parameters(node) == _code_parameters(code)
        ):
            return node
    return None


def _lines(file: str, module_globals: dict[str, Any]) -> list[str]:
    linecache.checkcache(file)
    lines = linecache.getlines(file, module_globals)
    if lines or file != COMMAND_LINE:
        return lines
    text = _command_line_program()
    if text is None:
        return []
    lines = text.splitlines(keepends=True)
    # Errors show the line too, and read it from here; Python 3.13 does the same for `-c`.
    linecache.cache[file] = (len(text), None, lines, file)
    return lines


def _command_line_program() -> str | None:
    """The program given to `python -c`."""
    arguments = iter(sys.orig_argv[1:])
    for argument in arguments:
        if not argument.startswith("-") or argument.startswith("--"):
            return None
        # Short options may be joined, and these take a value: `-Wc -Xdev -Ic program`.
        option = next((letter for letter in argument[1:] if letter in "cmWX"), "")
        joined = argument.partition(option)[2] if option else ""
        if option == "c":
            return joined or next(arguments, None)
        if option == "m":
            return None
        if option and not joined:
            next(arguments, None)
    return None


Function = ast.FunctionDef | ast.AsyncFunctionDef
_parsed: dict[str, list[Function]] = {}
_KEPT = 64


def _functions(text: str, *, fresh: bool = False) -> list[Function]:
    found = _parsed.get(text)
    if found is None or fresh:
        try:
            tree = ast.parse(text)
        except SyntaxError as error:
            raise SourceUnavailableError(
                f"the source text does not parse: {error.msg} (line {error.lineno})",
                remedy="the file was edited after it was imported; import it again",
            ) from None
        found = list(_definitions(tree))
        if len(_parsed) >= _KEPT:
            _parsed.clear()
        _parsed[text] = found
    return found


def _definitions(node: ast.AST) -> Iterator[Function]:
    """The functions in a tree. They stand in lists of statements, so expressions are not looked at."""
    for name in ("body", "orelse", "finalbody", "handlers", "cases"):
        block = getattr(node, name, None)
        for child in block if isinstance(block, list) else ():
            if isinstance(child, Function):
                yield child
            yield from _definitions(child)


def _first_line(node: Function) -> int:
    return min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])


def _parameters(node: ast.FunctionDef) -> list[str]:
    arguments = node.args
    return [argument.arg for argument in [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]]


def _code_parameters(code: types.CodeType) -> list[str]:
    return list(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount])
