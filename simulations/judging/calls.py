"""Calls of an attack: on some victims each, in this process or on a worker of a cluster."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from fedpriv.attacks.catalogue import ATTACKS
from fedpriv.codes.parties import settings
from fedpriv.device import CPU, Known, moved
from fedpriv.errors import BadObservation, FedprivError
from fedpriv.evidence.claims import Claim, Reconstruction, claims_in
from fedpriv.progress import Progress
from fedpriv.rng import generator
from fedpriv.scenario import Scenario
from fedpriv.scenario.built import dataset_of


@dataclass(frozen=True)
class Failure:
    """An attack that broke down on some victims, and why.

    `refused` says that the attack itself found that it cannot act on this evidence.
    """

    attack: str
    victims: tuple[str, ...]
    why: str
    refused: bool = False


@dataclass(frozen=True)
class Work:
    """One call of an attack: the victims it is about, and what it is called with."""

    names: tuple[str, ...]
    evidence: Any


Answer = tuple[Work, list[Claim] | Failure]


@dataclass(frozen=True)
class Call:
    """An attack by its name, and what it is built of; another process can build it too."""

    name: str
    label: str
    options: Mapping[str, Any]
    objects: Mapping[str, Any]  # what attackers were given besides the evidence, on the CPU
    scenario: Scenario | None

    def built(self, device: torch.device, known: Known | None = None) -> Any:
        """The attack on `device`; `known` is filled with what was moved there."""
        return ATTACKS.build(self.name, self.options, **moved(self.objects, device, known))


def attacked(
    call: Call, method: Any, work: Work, device: torch.device, progress: Progress
) -> list[Claim] | Failure:
    """The claims of one call, on the CPU again; or why there are none."""
    try:
        started = time.perf_counter()
        found = method(moved(work.evidence, device), progress)
        made = claims_in(moved(named(found, work.names), CPU))
        took = (time.perf_counter() - started) / max(1, len(made))
        if call.scenario is not None and any(claim.places is not None for claim in made):
            made = [replace(sampled(claim, call.scenario), seconds=took) for claim in made]
        return made
    except Exception as error:
        return failure_of(error, call.label, work.names)


def failure_of(error: Exception, label: str, names: tuple[str, ...]) -> Failure:
    plain = isinstance(error, FedprivError)
    why = str(error) if plain else f"{type(error).__name__}: {error}"
    return Failure(label, names, why, isinstance(error, BadObservation))


def named(found: Any, names: Sequence[str]) -> list[Claim]:
    """The claims of an attack; those without names are about the victims in their order."""
    claims = [found] if isinstance(found, Claim) else found
    if not isinstance(claims, list | tuple) or not all(isinstance(one, Claim) for one in claims):
        raise BadObservation(
            f"an attack must return a claim or a list of claims, got {type(found).__name__}."
        )
    result, place = [], 0
    for claim in claims:
        count = len(claim.names) or claim.victims
        if place + count > len(names) and not claim.names:
            raise BadObservation(
                f"an attack claimed something about {place + count} victims, and there are "
                f"{len(names)}."
            )
        result.append(claim if claim.names else replace(claim, names=names[place : place + count]))
        place += count
    return result


def sampled(claim: Claim, scenario: Scenario) -> Claim:
    """The claim about the samples of a party that attacks on codes are scored on."""
    if claim.places is None:
        return claim
    count, party = claim.places.shape[1], int(claim.names[0].partition("-")[2])
    order = torch.randperm(count, generator=generator(scenario.seed, "victims", party))
    few = claim.at(order[: settings(scenario).victims])
    if isinstance(few, Reconstruction) and not few.mean:
        dataset = dataset_of(scenario)
        return replace(few, mean=tuple(dataset.mean), std=tuple(dataset.std))
    return few
