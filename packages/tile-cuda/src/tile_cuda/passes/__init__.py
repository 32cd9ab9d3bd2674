"""Passes of this backend: asynchronous copies and the threads that issue them."""
