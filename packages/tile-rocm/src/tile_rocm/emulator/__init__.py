"""The names of HIP C++ for the host emulator of core: see `include/hip_emulator.h`."""
