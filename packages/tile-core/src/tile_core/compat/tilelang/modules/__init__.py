"""TileLang's modules: the `__all__` of each is what the facade of it has. `names.yaml` says which is which."""
