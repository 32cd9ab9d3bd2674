"""Kernels on demand: `jit`, `compile`, the kernel they give, and the cache behind them.

Everything is loaded on use: importing this package imports neither TVM nor numpy nor torch.
"""
