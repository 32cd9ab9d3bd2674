"""Errors raised by the ops part."""

from __future__ import annotations

