"""Helpers over TVM's `tirx`: the only modules that know how a tile program is spelled as IR."""
