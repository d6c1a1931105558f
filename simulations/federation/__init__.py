"""Running a federation: backends, the grid, clients' contexts, progress, exposure of one round."""
