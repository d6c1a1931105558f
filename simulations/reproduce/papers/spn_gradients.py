"""SPN figure 4: gradients of cross-entropy and of polarization in the backbone, layer by layer."""

from collections.abc import Iterator, Sequence

import torch
from scipy.stats import kurtosis
from torch import Tensor, nn
from torch.nn.functional import cosine_similarity, cross_entropy

from fedpriv.clients.plugins.polarization import (
    TwoHeads,
    class_codes,
    first_head,
    polarization_loss,
)
from fedpriv.models.heads import last_linear
from fedpriv.rng import draws, generator
from fedpriv.scenario.built import first_state, loaded, model_of, training_samples
from fedpriv.simulations.reproduce.cells import Cell
from fedpriv.simulations.reproduce.experiment import Finding
from fedpriv.simulations.reproduce.seeds import above, by_seed, over, ruled
from fedpriv.tables import Row

BATCHES, SIZE, STEPS, BITS, WIDTH, ALPHA2 = 20, 32, 300, 64, 0.3, 0.1


def correlations(cell: Cell) -> list[Row]:
    """Cosines and spreads at random weights and after some training, layer by layer."""
    scenario = cell.scenario
    x, y = training_samples(scenario)
    model = loaded(model_of(scenario), first_state(scenario)).train()
    head = last_linear(model)[1]
    draw = draws(generator(cell.seed, "spn"))
    secret = nn.Linear(head.in_features, BITS)
    secret.load_state_dict(first_head(head.in_features, BITS, WIDTH, draw))
    codes = class_codes(head.out_features, BITS, draw)
    both = TwoHeads(model, head, secret)
    batches = drawn(len(x), cell.seed)
    rows = looked(both, codes, x, y, batches, "random weights")
    optimiser = torch.optim.Adam(both.parameters(), lr=scenario.training.lr)
    for _ in range(STEPS):
        optimiser.zero_grad()
        rows_of = next(batches)
        u, v = both(x[rows_of])
        hidden = polarization_loss(v, codes[y[rows_of]]).mean()
        (cross_entropy(u, y[rows_of]) + ALPHA2 * hidden).backward()
        optimiser.step()
    return rows + looked(both, codes, x, y, batches, f"after {STEPS} steps")


def drawn(count: int, seed: int) -> Iterator[Tensor]:
    stream = generator(seed, "batches")
    while True:
        yield torch.randint(count, (SIZE,), generator=stream)


def looked(
    both: TwoHeads, codes: Tensor, x: Tensor, y: Tensor, batches: Iterator[Tensor], stage: str
) -> list[Row]:
    """The mean cosine over batches for each parameter of the backbone, and how values spread."""
    head = {id(value) for value in last_linear(both.model)[1].parameters()}
    named = {name: value for name, value in both.model.named_parameters() if id(value) not in head}
    found: dict[str, list[tuple[Tensor, Tensor]]] = {name: [] for name in named}
    for _ in range(BATCHES):
        rows = next(batches)
        u, v = both(x[rows])
        losses = (cross_entropy(u, y[rows]), polarization_loss(v, codes[y[rows]]).mean())
        parts = [
            torch.autograd.grad(one, list(named.values()), retain_graph=True) for one in losses
        ]
        for name, clean, secret in zip(named, *parts, strict=True):
            found[name].append((clean.flatten(), secret.flatten()))
    return [row(stage, name, pairs) for name, pairs in found.items()]


def row(stage: str, name: str, pairs: Sequence[tuple[Tensor, Tensor]]) -> Row:
    clean, secret = (torch.stack(part) for part in zip(*pairs, strict=True))
    return {
        "stage": stage,
        "parameter": name,
        "n": len(pairs),
        "cosine": float(cosine_similarity(clean, secret).mean()),
        "ratio": float((secret.norm(dim=1) / clean.norm(dim=1)).mean()),
        "ce-spread": float(clean.std()),
        "polarization-spread": float(secret.std()),
        "ce-kurtosis": float(kurtosis(clean.flatten())),
        "polarization-kurtosis": float(kurtosis(secret.flatten())),
    }


def correlated(rows: Sequence[Row]) -> Finding:
    """Every parameter of the backbone has a cosine above 0 after some training."""
    answers, told = [], []
    for stage in dict.fromkeys(str(row["stage"]) for row in rows):
        for name in dict.fromkeys(str(row["parameter"]) for row in rows):
            found = over(by_seed(rows, "cosine", stage=stage, parameter=name))
            if stage != "random weights":
                answers.append(above(found))
                told.append(f"{name} {found.mean:+.2f} ({found.low:+.2f} to {found.high:+.2f})")
    return ruled(answers, f"cosines after {STEPS} steps: {', '.join(told)}", "")
