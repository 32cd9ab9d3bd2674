"""The printer base of C-family languages: see `language.py` for what a language is and `c.py` for the smallest one."""

from tile_core.printer.language import Function, Helper, Language
from tile_core.printer.printer import Parameter, PrintedFunction, Printer, print_function, source_of

__all__ = ["Function", "Helper", "Language", "Parameter", "PrintedFunction", "Printer", "print_function", "source_of"]
