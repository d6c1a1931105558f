"""GradSim by layer during an attack: which layers a policy keeps it from matching (ATS fig. 6)."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor, nn

from fedpriv.attacks.catalogue import ATTACKS
from fedpriv.attacks.inversion.attack import GradientInversion
from fedpriv.data.dataset import Dataset
from fedpriv.engine.gradients import Distance, Gradients, inner, square
from fedpriv.policies import Policy, PolicySet
from fedpriv.policies.policy_set import RANDOM, named
from fedpriv.policies.search import Stage, check_going_on
from fedpriv.progress import Progress, go_on
from fedpriv.report.search_figures import draw_layers
from fedpriv.rng import generator
from fedpriv.simulations.search.correlation import judge_of, observed
from fedpriv.simulations.search.search import Places
from fedpriv.simulations.search.subject import Subject
from fedpriv.state import State
from fedpriv.tables import Row, write_table

POINTS = 100  # at most so many of a curve are drawn
EVER = 1e6  # gigabytes: so much that no attack is cut into chunks
Curves = dict[str, Tensor]  # by policy: (evaluations, layers)


def by_layer(found: Gradients, target: State) -> Tensor:
    """(layers,): GradSim (ATS eq. 5) of each layer's weights, the mean over victims."""
    cosines = [
        inner(found[name], target[name])
        / (square(found[name]) * square(target[name])).clamp_min(1e-30).sqrt()
        for name in layers(target)
    ]
    return torch.stack(cosines).mean(1)


def layers(target: State) -> list[str]:
    """The parameters that are a layer's weights, in order; values have a leading victim axis."""
    return [name for name, value in target.items() if value.ndim > 2]


def watched(distance: Distance, seen: list[Tensor]) -> Distance:
    """`distance` that also leaves `by_layer` of every evaluation in `seen`."""

    def told(found: Gradients, target: State) -> Tensor:
        with torch.no_grad():
            seen.append(by_layer(found, target))
        return distance(found, target)

    return told


def similarities(
    policies: Mapping[str, Policy],
    model: nn.Module,
    data: Dataset,
    attack: GradientInversion,
    images: int = 8,
    seed: int = 0,
    on_done: Callable[[], None] = lambda: None,
    progress: Progress = go_on,
) -> Curves:
    """How near each layer's gradient comes to the observed one, evaluation by evaluation.

    All policies on the same first test images, one image an update, in one chunk, so that the
    evaluations of all images coincide.
    """
    x, y = data.x_test[:images], data.y_test[:images]
    curves = {}
    for name, policy in policies.items():
        seen: list[Tensor] = []
        target = data.normalised(policy(x, generator(seed, "attacked", policy)))
        together = replace(attack, distance=watched(attack.distance, seen), memory=EVER)
        together(observed(model, data, target, y), progress)
        check_going_on(progress)
        curves[name] = torch.stack(seen)
        on_done()
    return curves


def write(curves: Curves, names: list[str], attack: str, out: Path) -> None:
    """`out` as CSV, a row for each policy, layer and evaluation shown, with a picture beside it."""
    rows: list[Row] = []
    for policy, values in curves.items():
        shown = range(0, len(values), -(-len(values) // POINTS))
        columns = dict(zip(names, values[list(shown)].T.tolist(), strict=True))
        for layer, column in columns.items():
            rows += [
                {"policy": policy, "layer": layer, "evaluation": at, "similarity": value}
                for at, value in zip(shown, column, strict=True)
            ]
    write_table(out, rows)
    draw_layers(rows, names, attack, out.with_suffix(".png"))


def watch(
    found: PolicySet,
    subject: Subject,
    out: Path,
    attack: str,
    images: int = 8,
    on_stage: Stage = lambda what, count: None,
    on_done: Callable[[], None] = lambda: None,
    progress: Progress = go_on,
) -> Path | None:
    """The figure's CSV for no policy, a random one and the best found, by the search's own model.

    None for an attack that does not search by gradients: it has no such curve.
    """
    searching, seed = ATTACKS.build(attack, {}), found.settings["seed"]
    if not isinstance(searching, GradientInversion):
        return None
    data, model = judge_of(found, subject, out)
    random, best = named(RANDOM, seed=seed)[0], Policy.parse(found.policies[0])
    policies = {"none": Policy(), f"random, {random}": random, f"searched, {best}": best}
    on_stage(f"{attack}, layer by layer", len(policies))
    curves = similarities(policies, model, data, searching, images, seed, on_done, progress)
    names = layers({name: value[None] for name, value in model.named_parameters()})
    write(curves, names, attack, Places(out).layers)
    return Places(out).layers
