"""Between TVM's `Span` and ours."""

from __future__ import annotations

from tvm import ir

from tile_core.errors.base import SourceSpan


def to_tvm(span: SourceSpan | None) -> ir.Span | None:
    """A TVM span for a source span."""
    if span is None:
        return None
    return ir.Span(ir.SourceName(span.file), span.line, span.end_line, span.column, span.end_column)


def from_tvm(span: ir.Span | None) -> SourceSpan | None:
    """The source span that a TVM node carries, `None` where it has none."""
    if span is None:
        return None
    return SourceSpan(span.source_name.name, span.line, span.column, span.end_line, span.end_column)
