"""Who gets which samples."""

import numpy as np


def partition(
    labels: np.ndarray, clients: int, *, kind: str, alpha: float, shards_per_client: int, seed: int
) -> list[np.ndarray]:
    draw = np.random.default_rng(seed)
    order = draw.permutation(len(labels))
    order = order[np.argsort(labels[order], kind="stable")]
    return [np.sort(order[i::clients]) for i in range(clients)]
