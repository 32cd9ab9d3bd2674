"""Errors raised by the passes part."""

from __future__ import annotations

