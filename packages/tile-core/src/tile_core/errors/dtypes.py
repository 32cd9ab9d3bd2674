"""Errors raised by the dtypes part."""

from __future__ import annotations

