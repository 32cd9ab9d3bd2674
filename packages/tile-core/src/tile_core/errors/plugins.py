"""Errors raised by the plugins part."""

from __future__ import annotations

