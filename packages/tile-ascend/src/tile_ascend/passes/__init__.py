"""The passes of this backend."""
