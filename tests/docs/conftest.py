"""A browser for the pages of the site."""

from browsing import page

__all__ = ["page"]
