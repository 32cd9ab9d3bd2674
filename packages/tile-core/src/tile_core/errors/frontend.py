"""Errors raised by the frontend part."""

from __future__ import annotations

