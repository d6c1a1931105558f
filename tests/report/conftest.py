"""Small made-up run folders, in the format that runs write."""

from folders import make_audit, make_run

__all__ = ["make_audit", "make_run"]
