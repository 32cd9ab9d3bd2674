"""The Metal Shading Language for the host emulator of core: see `include/metal_stdlib`."""
