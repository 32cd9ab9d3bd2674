"""The CPU backend of tile. `import tile_cpu.language as T` is its dialect."""
