"""Errors raised by the interpreter part."""

from __future__ import annotations

