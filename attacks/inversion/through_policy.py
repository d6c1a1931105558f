"""Knows the transformations of a client: searches the original through them."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from fedpriv.attacks.inversion.attack import GradientInversion, Seen, victims_of
from fedpriv.attacks.inversion.search import identity
from fedpriv.errors import BadOption
from fedpriv.evidence.claims import Reconstruction
from fedpriv.evidence.victims import Victims
from fedpriv.policies.informed import branches, differentiable
from fedpriv.policies.policy import Policy
from fedpriv.policies.transforms import ENHANCEMENT
from fedpriv.progress import Progress, Told, go_on

Transform = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class PolicyInversion:
    """An inversion that tries each thing a policy may have done, and goes on with the likeliest.

    Every transformation is searched through for a `pilot` part of the steps; per victim the one
    with the smallest loss is then searched to the end. The result is the original, not its
    transformed image. `transforms` are differentiable functions of images in the model's space, or
    else come from `policy`, with the `probability` and `enhancement` that clients use: below a
    probability of 1 each transformation, and all of them, may not have happened.
    """

    inversion: GradientInversion
    policy: str = ""
    transforms: Sequence[Transform] = ()
    pilot: float = 0.2
    probability: float = 1.0
    enhancement: float = ENHANCEMENT

    def __post_init__(self) -> None:
        if not self.policy and not self.transforms:
            raise BadOption("the policy-aware attack needs a policy, such as '3-1-7+43-18-18'.")
        if not 0 < self.pilot <= 1:
            raise BadOption(f"pilot must be in (0, 1], got {self.pilot}.")
        if self.policy:
            self.known()

    def __call__(self, seen: Seen, progress: Progress = go_on) -> Reconstruction:
        started, told = time.perf_counter(), Told(progress)
        victims = victims_of(seen)
        ways = self.ways(victims)
        short = replace(self.inversion, steps=max(1, round(self.pilot * self.inversion.steps)))
        effort = len(ways) * self.pilot
        first = effort / (effort + 1)  # the part of the work that the pilots are
        pilots = [
            replace(short, transform=way)(
                victims, told.within(first * number / len(ways), first * (number + 1) / len(ways))
            )
            for number, way in enumerate(ways)
        ]
        losses = torch.stack([pilot.loss for pilot in pilots])
        chosen = losses.argmin(0)
        parts: dict[int, Reconstruction] = {}
        for number in chosen.unique().tolist():
            rows = (chosen == number).nonzero().flatten()
            search = replace(self.inversion, transform=ways[number])
            found = search(victims.rows(rows), told.within(first, 1))
            parts |= {row: found.of(i) for i, row in enumerate(rows.tolist()) if i < len(found.x)}
        order = [parts[row] for row in sorted(parts)]
        return replace(
            order[0],
            x=torch.cat([part.x for part in order]),
            labels=torch.cat([part.labels for part in order]),
            loss=torch.cat([part.loss for part in order]),
            names=tuple(part.names[0] for part in order),
            seconds=time.perf_counter() - started,
            partial=told.stopped,
            extra={"transformations": len(ways), "chosen": chosen.tolist()},
        )

    def known(self) -> Policy:
        """The clients' policy as they apply it."""
        policy = Policy.parse(self.policy)
        return replace(policy, probability=self.probability, enhancement=self.enhancement)

    def ways(self, victims: Victims) -> list[Transform]:
        """All that may have been done to x, doing nothing only where that can be."""
        if self.transforms:
            return [identity, *self.transforms]
        facts = victims.facts
        found = branches(self.known())
        return [differentiable(branch, mean=facts.mean, std=facts.std) for branch in found]
