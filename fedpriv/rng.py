"""One seed, many independent streams: a named generator per client, round and purpose."""

import hashlib

import torch


def seed_of(seed: int, *names: object) -> int:
    """A 63-bit seed for the stream `names` of `seed`; the same on every machine."""
    text = "/".join(map(str, (seed, *names)))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


def generator(seed: int, *names: object) -> torch.Generator:
    """A torch generator for a stream of `seed`, by its names: `generator(7, "client", 3)`."""
    return torch.Generator().manual_seed(seed_of(seed, *names))
