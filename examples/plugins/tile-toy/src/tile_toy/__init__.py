"""A backend that prints plain C and runs it with the system's C compiler."""
