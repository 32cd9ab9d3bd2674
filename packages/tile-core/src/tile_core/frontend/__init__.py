"""From Python functions to tile programs."""
