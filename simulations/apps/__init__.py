"""Anybody's Flower app, run as it is and judged."""
