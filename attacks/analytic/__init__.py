"""Attacks that solve for the input or read it off, without a search."""
