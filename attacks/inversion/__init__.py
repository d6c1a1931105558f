"""Gradient inversion, from parts that compose."""
