"""Passes of the CPU backend: math expansion, vectorisation, float rules that LLVM's code generator needs."""
