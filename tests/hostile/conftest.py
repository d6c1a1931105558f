"""Tests in this folder play the enemy of real clients and servers."""

import sys

import pytest


@pytest.fixture(autouse=True)
def no_ray(monkeypatch):
    """A client in a process with Ray counts as simulated; an earlier test may have started Ray."""
    monkeypatch.delitem(sys.modules, "ray", raising=False)
