"""Scoring: the one place where a claim meets the truth, beside a blind guess of the same form."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from fedpriv.catalogue import METRICS
from fedpriv.codes.parties import columns_of, is_vertical, labels_of
from fedpriv.columns import BLIND
from fedpriv.device import CPU, moved
from fedpriv.errors import BadInput
from fedpriv.evidence.claims import Claim, Features, Public, Reconstruction, Views
from fedpriv.evidence.truth import Truth
from fedpriv.metrics.matching import nearest
from fedpriv.metrics.metric import Metric
from fedpriv.metrics.recognition import Recogniser
from fedpriv.metrics.tradeoff import ppc
from fedpriv.scenario import Scenario
from fedpriv.scenario.built import dataset_of, test_samples
from fedpriv.tables import Row


@dataclass(frozen=True)
class Scored:
    """One victim's claim in rows, a row a sample, and what was compared."""

    rows: list[Row]
    views: Views
    ordered: bool  # whether the attack knew which sample each guess is of


@dataclass(frozen=True)
class Judge:
    """What scoring needs to know of a run.

    A stranger's recording has no scenario; it has a blind guess where `own` are public samples of
    the same kind. `faces` gives identity features of pictures in [0, 1], where an attack of the
    scenario is about faces. `recogniser` says whether somebody would recognise a reconstruction;
    only audits ask it. Metrics are computed on `device`; claims and truths are on the CPU.
    """

    scenario: Scenario | None = None
    faces: Callable[[Tensor], Tensor] | None = None
    recogniser: Recogniser | None = None
    metrics: Mapping[str, Metric] = field(
        default_factory=lambda: {name: METRICS.build(name) for name in METRICS}
    )
    own: Public | None = None
    device: torch.device = CPU

    @cached_property
    def groups(self) -> dict[str, slice]:
        return dict(dataset_of(self.scenario).groups) if self.scenario else {}

    def public(self, node: int) -> Public | None:
        """Public samples of the kind that a client holds: the test part of the data."""
        if self.scenario is None:
            return self.own
        x, y = test_samples(self.scenario)
        names = ("label", *dataset_of(self.scenario).attributes)
        attributes = {name: labels_of(self.scenario, name, "test")[0] for name in names}
        features = self.faces(dataset_of(self.scenario).denormalised(x)) if self.faces else None
        if is_vertical(self.scenario):
            x = x[:, columns_of(self.scenario, node)]
        return Public(x, y, attributes, features)

    def besides(self, claim: Claim, truth: Truth, views: Views, g: Tensor, t: Tensor) -> Views:
        """Views that need more than the claim: faces, categories of a table, guessed secrets."""
        found: Views = {}
        if isinstance(claim, Features) and self.faces and self.scenario:
            pictures = dataset_of(self.scenario).denormalised(truth.x[t])
            found["features"] = (claim.guess[0][g], self.faces(pictures))
        if "sample" in views and self.faces and views["sample"][1].dim() == 4:
            found["faces"] = tuple(map(self.faces, views["sample"]))  # type: ignore[assignment]
        if "sample" in views and (columns := self.columns(truth.node)):
            found["categories"] = tuple(chosen(x, columns) for x in views["sample"])  # type: ignore[assignment]
        if "sample" in views and self.recogniser and self.recogniser.fits(views["sample"][0]):
            guess, real = views["sample"]
            place = self.recogniser.nearest(guess, real)
            found["nearest"] = (place, torch.zeros_like(place))
            found["recognised"] = (self.recogniser.named(guess), truth.y[t].long())
        for name, guess in claim.found.items():
            if name in truth.secrets:
                found[name] = (guess, truth.secrets[name][None])
        return found

    def columns(self, node: int) -> list[Tensor]:
        """The one-hot columns of each field that a client holds, by their places in its samples."""
        if not self.groups or self.scenario is None:
            return []
        own = (
            columns_of(self.scenario, node)
            if is_vertical(self.scenario)
            else torch.arange(dataset_of(self.scenario).shape[0])
        )
        place = {int(column): i for i, column in enumerate(own)}
        return [
            torch.tensor([place[column] for column in range(part.start, part.stop)])
            for part in self.groups.values()
            if part.stop - part.start > 1 and part.start in place
        ]

    def scored(self, claim: Claim, truth: Truth, about: Mapping[str, Any]) -> Scored:
        """A row for every sample that one victim's claim is about.

        A batch comes back in any order, so that guesses are paired with samples by the least error.
        The blind guess is paired like the claim.
        """
        check_shapes(claim, truth)
        g, t = claim.pairs(truth)
        views = claim.views(truth, g, t)
        views |= self.besides(claim, truth, views, g, t)
        values = self.values(views)
        public = self.public(truth.node)
        if public is not None:
            guess = claim.blind(public)
            unseen = guess.views(truth, g, t)
            unseen |= self.besides(guess, truth, unseen, g, t)
            blind = self.values(unseen)
            values = {
                column: numbers
                for name in values
                for column, numbers in ((name, values[name]), (name + BLIND, blind.get(name)))
                if numbers is not None
            }
        facts = facts_of(claim, truth)
        rows = [
            {
                **about,
                "round": truth.round,
                "node": truth.node,
                "victim": int(truth.indices[t[i]]),
                "claim": claim.kind,
                **claim.said(truth, int(g[i]), int(t[i])),
                **{name: round(float(value[i]), 6) for name, value in values.items()},
                **facts,
            }
            for i in range(len(g))
        ]
        clients = {row["node"] for row in rows}
        if len(clients) > 1:  # one claim about all of them: each has its part of the time
            for row in rows:
                row["seconds"] = round(claim.seconds / len(clients), 4)
        return Scored(rows, views, claim.places is not None)

    def values(self, views: Views) -> dict[str, Tensor]:
        """Every metric that fits something of the claim, one value a sample."""
        count = max((len(truth) for _, truth in views.values()), default=0)
        found = {}
        for name, metric in self.metrics.items():
            if metric.of in views and metric.fits(views[metric.of][1]):
                value = metric(*moved(views[metric.of], self.device)).cpu()
                found[name] = value.expand(count) if len(value) == 1 else value
        return found


def check_shapes(claim: Claim, truth: Truth) -> None:
    """BadInput for a truth of samples that look different from those claimed."""
    if isinstance(claim, Reconstruction) and claim.x.shape[2:] != truth.x.shape[1:]:
        raise BadInput(
            f"{truth.name}: guesses have shape {tuple(claim.x.shape[2:])} and the client's samples "
            f"{tuple(truth.x.shape[1:])}; this truth is of another run."
        )


def chosen(x: Tensor, columns: Sequence[Tensor]) -> Tensor:
    """The category (N, fields) that one-hot columns say, the largest of each field."""
    return torch.stack([x[:, own].argmax(dim=1) for own in columns], dim=1)


def facts_of(claim: Claim, truth: Truth) -> Row:
    """How the claim came about, and how far the update was from a plain one (SPN fig. 5)."""
    found: Row = {"seconds": round(claim.seconds, 4), "partial": claim.partial}
    loss = getattr(claim, "loss", None)
    if loss is not None and not torch.isnan(loss[0]):
        found = {"loss": float(loss[0]), **found}
    if truth.clean == truth.clean:  # not nan
        found |= {"clean-norm": truth.clean, "added-norm": truth.added}
        found["m"] = ppc(truth.clean, truth.added)
        if truth.clean_biases == truth.clean_biases:
            found["m-biases"] = ppc(truth.clean_biases, truth.added_biases)
    return found


def trace(scores: Sequence[Scored], metric: Metric, name: str) -> None:
    """Fill in whether the reconstruction nearest to a sample is its owner's (SPN alg. 6).

    The blind guess names the same owner for every sample, the client with the lowest number.
    """
    known = [one for one in scores if "sample" in one.views and not one.ordered]
    if not known:
        return
    pool = torch.cat([one.views["sample"][0] for one in known])
    owner = torch.tensor([int(row["node"]) for one in known for row in one.rows])
    somebody = int(owner.min())
    for one in known:
        real = torch.tensor([int(row["node"]) for row in one.rows])
        hits = metric(owner[nearest(one.views["sample"][1], pool)], real)
        blind = metric(torch.full_like(real, somebody), real)
        for row, hit, guess in zip(one.rows, hits.tolist(), blind.tolist(), strict=True):
            row |= {name: hit, name + BLIND: guess}


def traced(judge: Judge, scores: Sequence[Scored]) -> None:
    """Every metric of owners, for the claims of one attack in one round."""
    for name, metric in judge.metrics.items():
        if metric.of == "owner":
            trace(scores, metric, name)
