"""Lowerings of tile ops that this backend does better than by portable loops."""
