"""The Ascend backend of tile. `import tile_ascend.language as T` is its dialect."""
