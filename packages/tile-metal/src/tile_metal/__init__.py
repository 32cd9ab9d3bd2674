"""The Metal backend of tile. `import tile_metal.language as T` is its dialect."""
