"""The environment of a process that starts a Ray cluster of its own."""

import os


def environment():
    """With a token, which a cluster that is joined must ask for; workers have our priority."""
    return os.environ | {
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": "3" * 64,
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_worker_niceness": "0",
        "PYTHONPATH": "",
    }
