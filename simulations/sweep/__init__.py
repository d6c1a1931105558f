"""Sweeps: defence x value x attack x batch size x seed."""
