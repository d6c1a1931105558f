"""Where a client's secrets come from: never from a message, and never the same twice.

A real client takes every key from its system (`FromSystem`). Nothing that a server can choose or
repeat takes part: not the seed in the scenario, not the round, not the model. Noise, samples of a
batch, their order and what layers such as dropout draw are fresh for every release.

A few secrets must stay the same during a run: SPN's head and class codes, ARS' mask. A server that
could have them drawn again would average them out, or learn them piece by piece from many runs.
They follow from a key that is drawn when a run is first seen. Flower's run id tells runs apart.

A simulation must be repeatable, so that it has seeds in their place (`SeededForSimulation`).
"""

import hmac
import random
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from flwr.app import Context

from fedpriv.cipher import CipherDraws
from fedpriv.rng import Draws, SeededDraws, generator, seed_of
from fedpriv.scenario.built import seed_everything
from fedpriv.wire import Memory

MEMORY, SEED = "secret", "secret-seed"
KEY_BYTES = 32
RUNS = 1000  # whose keys are remembered
TWISTER = 624  # words of 32 bits in the state of a Mersenne twister


class Secrets(Protocol):
    """A client's secret randomness; `names` say what for."""

    def fresh(self, *names: object) -> Draws:
        """A stream for one purpose of one release."""
        ...

    def of_run(self, *names: object) -> Draws:
        """A stream that begins anew, with the same numbers, whenever it is asked for in a run."""
        ...

    def layers(self, *names: object) -> Callable[[], None]:
        """Called, it sets the global generators of which layers draw; the same at every call."""
        ...


@dataclass(frozen=True)
class SeededForSimulation:
    """NOT SECRET: all of it follows from a seed, so that a simulation can be repeated."""

    seed: int

    def fresh(self, *names: object) -> Draws:
        return SeededDraws(generator(self.seed, *names))

    def of_run(self, *names: object) -> Draws:
        return self.fresh(*names)

    def layers(self, *names: object) -> Callable[[], None]:
        seed = seed_of(self.seed, *names)
        return lambda: seed_everything(seed)


@dataclass(frozen=True)
class FromSystem:
    """Keys of 256 bits from the system; only those of runs are kept, in the client's memory."""

    memory: Memory
    run: int

    def fresh(self, *names: object) -> Draws:
        return CipherDraws(secrets.token_bytes(KEY_BYTES))

    def of_run(self, *names: object) -> Draws:
        purpose = "/".join(map(str, names)).encode()
        return CipherDraws(hmac.digest(self.key_of_run(), purpose, "sha256"))

    def key_of_run(self) -> bytes:
        """This run's key, drawn on first use and kept."""
        facts = self.memory.facts(MEMORY)
        keys = dict(zip(facts.get("runs", []), facts.get("keys", []), strict=True))
        if str(self.run) not in keys:
            keys[str(self.run)] = secrets.token_bytes(KEY_BYTES)
            kept = list(keys.items())[-RUNS:]
            self.memory.note(
                MEMORY, {"runs": [run for run, _ in kept], "keys": [key for _, key in kept]}
            )
        found: bytes = keys[str(self.run)]
        return found

    def layers(self, *names: object) -> Callable[[], None]:
        key = secrets.token_bytes(KEY_BYTES)
        return lambda: fill_generators(CipherDraws(key))


def fill_generators(draws: CipherDraws) -> None:
    """Give the global generators a whole random state: a seed would leave torch's with 32 bits.

    The states are Mersenne twisters, which are no ciphers. That is enough for what layers draw,
    such as first weights and dropout; noise never comes from here. CUDA's generators have 64 bits
    of seed and 64 of an offset, which starts at a multiple of 4.
    """
    words = [draws.words(TWISTER) >> np.uint64(32) for _ in range(3)]
    random.seed(words[0].astype("<u4").tobytes())
    np.random.set_state(("MT19937", words[1].astype(np.uint32), TWISTER, 0, 0.0))
    torch.default_generator.set_state(twister_state(words[2]))
    if torch.cuda.is_initialized():
        for device in torch.cuda.default_generators:
            seed, offset = draws.words(2)
            device.manual_seed(int(seed) >> 1)
            device.set_offset(int(offset) >> 16 << 2)


def twister_state(words: np.ndarray) -> torch.Tensor:
    """The state of a torch generator that begins with these 624 words.

    After three words of 64 bits (seed, place, next) torch's state has one for each of the 624.
    """
    state = torch.Generator().manual_seed(0).get_state()
    state.view(torch.int64)[3 : 3 + TWISTER] = torch.from_numpy(words.astype(np.int64))
    return state


def secrets_of(context: Context) -> Secrets:
    """This client's secrets; seeded only where its own node configuration says so."""
    seed = context.node_config.get(SEED)
    if seed is not None:
        return SeededForSimulation(int(seed))
    return FromSystem(Memory(context.state), context.run_id)
