"""Imports its driver at the top, which a plugin must not do: discovery then fails where the driver is missing."""

from __future__ import annotations

import driver_that_is_not_installed  # noqa: F401
