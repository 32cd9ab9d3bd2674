"""`pool.ll` runs the blocks of a launch on the cores; it is compiled once for a target."""
