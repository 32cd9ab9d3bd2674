"""One pass a file; `pipeline.py` is their order, `lower.py` runs them."""
