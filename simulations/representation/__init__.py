"""Attacks on shared codes, scored: what a curious party learns from a finished run."""
