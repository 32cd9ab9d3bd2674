"""Programs of other tile languages, run unchanged. Nothing of it is imported by the rest of tile-core."""
