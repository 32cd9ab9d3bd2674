"""The CUDA backend of tile. `import tile_cuda.language as T` is its dialect."""
