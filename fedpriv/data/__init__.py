"""Data sets by name, their sources, and how they are divided among clients."""
