"""Scenarios small enough for whole commands: one of updates, one of codes."""

UPDATES = {
    "name": "updates",
    "seed": 3,
    "data": {"name": "synthetic", "options": {"train": 64, "test": 32, "size": 8}},
    "model": {"name": "mlp", "hidden": [16]},
    "training": {"lr": 0.1, "batch-size": 1, "local-steps": 1},
    "federation": {"clients": 2, "rounds": 2, "backend": "inline"},
}
CODES = {
    "name": "codes",
    "seed": 3,
    "data": {"name": "synthetic", "options": {"train": 90, "test": 40, "size": 8}},
    "model": {"name": "mlp", "hidden": [16]},
    "federation": {"clients": 3, "rounds": 1, "backend": "inline", "strategy": "representation"},
    "representation": {
        "options": {"hidden": [16], "code": 8},
        "encoder-epochs": 5,
        "decoder-epochs": 5,
        "task-epochs": 5,
        "lr": 0.01,
        "batch-size": 25,
        "victims": 20,
    },
}
