"""The ROCm backend of tile. `import tile_rocm.language as T` is its dialect."""
