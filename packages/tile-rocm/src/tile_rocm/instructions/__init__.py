"""The matrix instructions of AMD GPUs: what is in the table, how each is printed, and what it does in the emulator."""
