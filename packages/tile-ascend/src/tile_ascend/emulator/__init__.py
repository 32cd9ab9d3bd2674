"""The names of Ascend C for the host emulator of core: see `include/ascend_emulator.h`."""
