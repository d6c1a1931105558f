"""A browser, and small folders to make pages of."""

from browsing import page
from folders import make_audit, make_run

__all__ = ["make_audit", "make_run", "page"]
