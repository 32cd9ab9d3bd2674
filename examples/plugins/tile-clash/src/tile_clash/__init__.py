"""A plugin that claims another one's name."""
