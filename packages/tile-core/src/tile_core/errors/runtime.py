"""Errors raised by the runtime part."""

from __future__ import annotations

