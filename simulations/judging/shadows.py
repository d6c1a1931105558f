"""Shadow federations: what an attacker trains on its own samples to know what is usual.

The attacker knows the scenario and the first public model. Each shadow is a federation of its own,
on the simulator, with as many clients of the same sizes and the same plugins. Every candidate is
among its suspect's samples in half of the shadows; the attacker's own samples fill the rest.
"""

import logging
import math
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console
from torch import Tensor

from fedpriv.attacks.inference.references import STATISTICS, References
from fedpriv.attacks.inference.series import Series
from fedpriv.data.dataset import Dataset
from fedpriv.data.npz import write_npz
from fedpriv.device import CPU, Known, moved
from fedpriv.errors import BadInput, BadObservation
from fedpriv.evidence.candidates import Candidates
from fedpriv.evidence.claims import Public
from fedpriv.files import whole
from fedpriv.progress import Progress, Told, go_on
from fedpriv.rng import generator, seed_of
from fedpriv.runfolder import RunFolder
from fedpriv.scenario import Scenario, from_tables
from fedpriv.scenario.built import dataset_of
from fedpriv.simulations.judging.held import own_samples

log = logging.getLogger(__name__)
POPULATION = 300  # of the attacker's samples that no shadow trains on, at most a quarter of them
UNUSED = ("defences", "sweep", "gate", "variants", "malicious")


@dataclass(frozen=True)
class ShadowFederations:
    """Trains shadows of a scenario in a folder, each once; later attacks read what they said."""

    scenario: Scenario
    folder: RunFolder
    candidates: Candidates
    own: Public

    def place(self, seen: Series) -> Path:
        """Shadows have the rounds that were seen: those of other rounds are of no use."""
        name = f"rounds-{seen.rounds[0]}-{seen.rounds[-1]}-{len(seen.rounds)}"
        return self.folder.path / "shadows" / name

    def moved_to(self, device: torch.device) -> "ShadowFederations":
        """The same: its samples stay on the CPU, and its answers go where the series is."""
        return self

    @cached_property
    def moved_before(self) -> Known:
        return {}

    def __call__(
        self, count: int, statistic: str, seen: Series, progress: Progress = go_on
    ) -> tuple[Candidates, References]:
        """The candidates, the population behind them, and what shadows say of both."""
        about = self.asked
        inside = halves(count, len(self.candidates), self.scenario.seed)
        told, values = Told(progress), []
        for number in range(count):
            if not told(number / count, math.nan):
                break
            kept = self.place(seen) / f"{number}-of-{count}.npz"
            if not kept.exists():
                self.train(number, kept, inside[number], about, seen, told)
            if told.stopped:
                break
            with np.load(kept, allow_pickle=False) as file:
                values.append(torch.from_numpy(file[statistic]))
        if len(values) < 2:
            raise BadObservation(
                f"{len(values)} shadow federations were trained before the end; two are needed."
            )
        references = References(torch.stack(values), inside[: len(values)])
        there = moved(about, seen.device, self.moved_before)  # one object, as in `asked`
        return there, moved(references, seen.device)

    def split(self) -> tuple[Public, Public]:
        """The attacker's samples: the population to compare with, and those to train on."""
        order = torch.randperm(len(self.own.y), generator=generator(self.scenario.seed, "shadows"))
        few = min(POPULATION, len(order) // 4)
        parts = [Public(self.own.x[part], self.own.y[part]) for part in (order[:few], order[few:])]
        return parts[0], parts[1]

    @cached_property
    def asked(self) -> Candidates:
        """The candidates and the population; each of its samples is compared with some client.

        It is made once: a series keeps what it computed of it.
        """
        population, _ = self.split()
        clients = self.candidates.suspect.unique()
        suspect = clients[torch.arange(len(population.y)) % len(clients)]
        return Candidates(
            x=torch.cat([self.candidates.x, population.x]),
            y=torch.cat([self.candidates.y, population.y]),
            suspect=torch.cat([self.candidates.suspect, suspect]),
        )

    def train(
        self,
        number: int,
        kept: Path,
        inside: Tensor,
        about: Candidates,
        seen: Series,
        told: Told,
    ) -> None:
        """Train one shadow, note all statistics, and keep nothing else of it.

        One that was told to stop is thrown away.
        """
        from fedpriv.simulations.federation.contexts import SEEDED
        from fedpriv.simulations.federation.progress import PlainLines
        from fedpriv.simulations.federation.run import simulate

        log.info("shadow federation %s", kept.stem)
        place = RunFolder(kept.with_suffix(""))
        shutil.rmtree(place.path, ignore_errors=True)
        sizes = sizes_of(seen, self.scenario.federation.clients, len(self.own.y))
        data = write_npz(kept.with_name(f"{kept.stem}-data.npz"), self.data(number, inside, sizes))
        scenario = shadow_of(self.scenario, data, number, seen.rounds)
        place.start(scenario, SEEDED)
        place.save_model(moved(seen.models()[0], CPU), {"round": seen.rounds[0] - 1})
        simulate(scenario, place, PlainLines(Console(quiet=True)), resume=True, progress=told)
        if not told.stopped:
            self.note(kept, place, about)
        shutil.rmtree(place.path)
        data.unlink()

    def note(self, kept: Path, place: RunFolder, about: Candidates) -> None:
        """Write down every statistic of a shadow that was trained."""
        from fedpriv.simulations.judging.recordings import of_run

        recording = of_run(place)
        series = recording.series(recording.updates, place)
        there = moved(about, series.device)
        found: dict[str, Any] = {
            name: score(series, there).double().cpu().numpy() for name, score in STATISTICS.items()
        }
        with whole(kept) as beside, beside.open("wb") as file:
            np.savez(file, **found)

    def data(self, number: int, inside: Tensor, sizes: list[int]) -> Dataset:
        """What the clients of one shadow have: their candidates that are in, and own samples."""
        real, (_, own) = dataset_of(self.scenario), self.split()
        stream = generator(self.scenario.seed, "shadow", number)
        xs, ys, clients = [], [], []
        deck = torch.randperm(len(own.y), generator=stream)
        dealt = 0
        for client, size in enumerate(sizes):
            mine = (inside & (self.candidates.suspect == client)).nonzero().flatten()[:size]
            lacking = min(size - len(mine), len(deck))
            rest = deck[torch.arange(dealt, dealt + lacking) % len(deck)]
            dealt += lacking
            xs += [self.candidates.x[mine], own.x[rest]]
            ys += [self.candidates.y[mine], own.y[rest]]
            clients.append(torch.full((len(mine) + lacking,), client))
        x_test, y_test = own.x[deck[:200]], own.y[deck[:200]]
        return Dataset(
            name="shadow",
            x_train=real.denormalised(torch.cat(xs), clamp=False),
            y_train=torch.cat(ys),
            x_test=real.denormalised(x_test, clamp=False),
            y_test=y_test,
            classes=real.classes,
            mean=real.mean,
            std=real.std,
            ids=(torch.cat(clients), torch.zeros(len(y_test), dtype=torch.long)),
        )


def halves(count: int, candidates: int, seed: int) -> Tensor:
    """(S, M) in which shadows a candidate is: in half of them, drawn for each candidate."""
    draws = torch.rand(count, candidates, generator=generator(seed, "shadows", "halves"))
    return draws.argsort(0).argsort(0) < count // 2


def sizes_of(seen: Series, clients: int, own: int) -> list[int]:
    """How many samples each client has, as the messages say; of a sum, equal parts of it.

    Where messages do not say, each client gets its part of the attacker's own samples.
    """
    told = dict.fromkeys(seen.nodes, 0)
    for one in seen.updates:
        told[one.node] = max(told[one.node], one.num_examples)
    apart = [told.get(client, 0) for client in range(clients)]
    sizes = apart if any(apart) else [sum(told.values()) // clients] * clients
    usual = max(sizes) if max(sizes) > 1 else max(2, own // clients)
    return [size if size > 1 else usual for size in sizes]


def shadow_of(scenario: Scenario, data: Path, number: int, rounds: Sequence[int]) -> Scenario:
    """The scenario of a shadow: other data and randomness, and everything else the same.

    It starts from the first public model that was seen, and the same rounds are recorded.
    """
    tables = {key: value for key, value in scenario.plain().items() if key not in UNUSED}
    tables["name"] = f"shadow-{number}"
    tables["seed"] = seed_of(scenario.seed, "shadow", number) % 2**31
    tables["data"] = {
        "name": "npz",
        "partition": "natural",
        "options": {"path": str(data.resolve())},
    }
    tables["federation"] = {**tables["federation"], "rounds": rounds[-1]}
    tables["keep-truth"] = False
    tables["attacks"] = [{"name": "member-loss", "rounds": list(rounds)}]
    return from_tables(tables)


@lru_cache(maxsize=2)
def shadow_federations(text: str, folder: RunFolder, candidates: Candidates) -> ShadowFederations:
    """The same object for all attacks on a folder, so that they share what they compute."""
    scenario = Scenario.of({"scenario": text})
    own = own_samples(scenario, folder)
    check_own(own, dataset_of(scenario).classes)
    return ShadowFederations(scenario, folder, candidates, own)


def check_own(own: Public, classes: int) -> None:
    """BadInput for an attacker who has too few samples to train on."""
    if len(own.y) < 4 * classes:
        raise BadInput(
            f"The attacker has {len(own.y)} samples of its own, too few for shadow federations; "
            "set data.reserve."
        )
