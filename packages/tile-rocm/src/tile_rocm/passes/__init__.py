"""Passes of this backend alone."""
