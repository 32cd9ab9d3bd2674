"""The names of CUDA C++ for the host emulator of core: see `include/cuda_emulator.h`."""
