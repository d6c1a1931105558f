"""What the engine promises beside speed; each part alone: `draws`, `clients`, `dlg`, `scoring`.

    python benchmarks/engine.py draws clients dlg scoring

- draws: on how many of nine draws of ConvNet (width 64) attacks take the explicit engine.
- clients: CPU time of an attack on ten clients of unequal size in five rounds, whose models differ,
  beside the same with clients of one size.
- dlg: `dlg` and a plain loop after the DLG paper's script, on that script's network, on CIFAR-100's
  test pictures 0 to 11. The number of steps of `dlg` was chosen on 0, 2, 4 and 11.
- scoring: S_pri of ResNet20 as the search computes it, beside one image and one point at a time.
"""

import argparse
import statistics
import time
from dataclasses import replace

import torch
from _plain import built, images, observed
from torch import Tensor, nn
from torch.nn.functional import cosine_similarity, cross_entropy

from fedpriv.attacks.catalogue import ATTACKS
from fedpriv.data.dataset import Dataset
from fedpriv.eager import skip_compiler
from fedpriv.engine import trusted
from fedpriv.engine.gradients import gradient_of
from fedpriv.engine.memory import keep_pages
from fedpriv.evidence.observation import Observation
from fedpriv.evidence.victims import alike, stack
from fedpriv.metrics.images import psnr
from fedpriv.models.initialisation import initialised
from fedpriv.policies.policy import random_policies
from fedpriv.policies.scorer import Scorer
from fedpriv.policies.search import Search
from fedpriv.rng import generator
from fedpriv.simulations.search.subject import Subject, scorer_of, untrained
from fedpriv.state import state_of


def draws(data: Dataset) -> None:
    found = 0
    for seed in range(11, 20):
        trusted._checked.clear()  # else only the first draw of a structure is looked at
        found += stack(observed(built("convnet64", data, seed), data, 1)).engine is not None
    print(f"draws: {found} of 9 on the engine")


def clients(data: Dataset, rounds: int = 5, many: int = 10) -> None:
    for name, repeats in (("lenet", 15), ("resnet20", 4)):
        equal: list[Observation] = []
        models = [built(name, data, 11 + number) for number in range(rounds)]
        for number, model in enumerate(models):  # every round has weights of its own
            seen = observed(model, data, many, batch=2)
            equal += [replace(one.on(models[0]), round=number) for one in seen]
        unequal = [replace(one, num_examples=2 + 7 * (i % many)) for i, one in enumerate(equal)]
        attack = ATTACKS.build("quick", {"steps": 3})

        def spent(seen: list[Observation], attack=attack) -> float:
            began = time.process_time()
            for group in alike(seen):
                attack(stack(group))
            return time.process_time() - began

        pairs = [(spent(unequal), spent(equal)) for _ in range(repeats + 1)][1:]
        ratios = [a / b for a, b in pairs]
        low, middle, high = statistics.quantiles(ratios, n=4)
        print(
            f"clients, {name}: unequal take {middle:.3f} ({low:.3f}–{high:.3f}) of the time of "
            f"equal ones; {len(alike(unequal))} group(s) of {len(unequal)} victims"
        )


class Script(nn.Sequential):
    """The network of the DLG paper's script, weights and biases evenly within ±0.5."""

    def __init__(self, classes: int) -> None:
        layers: list[nn.Module] = []
        for i, stride in enumerate((2, 2, 1)):
            layers += [nn.Conv2d(12 if i else 3, 12, 5, stride, padding=2), nn.Sigmoid()]
        super().__init__(*layers, nn.Flatten(), nn.Linear(768, classes))
        initialised(self, "uniform", 0.5)


def by_script(model: nn.Module, gradient: list[Tensor], classes: int) -> Tensor:
    """torch's L-BFGS on image and label together, 300 outer steps, as the script does."""
    x, y = torch.randn(1, 3, 32, 32).requires_grad_(), torch.randn(1, classes).requires_grad_()
    optimiser = torch.optim.LBFGS([x, y])
    parameters = list(model.parameters())

    def closure() -> Tensor:
        optimiser.zero_grad()
        loss = cross_entropy(model(x), y.softmax(1))
        found = torch.autograd.grad(loss, parameters, create_graph=True)
        gap = torch.stack(
            [(a - b).square().sum() for a, b in zip(found, gradient, strict=True)]
        ).sum()
        gap.backward(inputs=[x, y])
        return gap

    for _ in range(300):
        last = float(optimiser.step(closure))
        if last < 1e-13 or last != last:  # nothing is left to gain, or it broke down
            break
    return x.detach()


def dlg(data: Dataset, chosen: list[int], script: bool) -> None:
    torch.manual_seed(1234)
    model = Script(data.classes)
    x, y = data.x_test[chosen].float() / 255, data.y_test[chosen]
    for row, number in enumerate(chosen):
        own, label = x[row : row + 1], y[row : row + 1]
        gradient = gradient_of(model, own, label)
        seen = Observation.of_gradient(
            state_of(model),
            gradient,
            classes=data.classes,
            input_shape=(3, 32, 32),
            batch_size=1,
            num_examples=1,
            mode="eval",
            model=model,
        )
        began = time.process_time()
        claim = ATTACKS.build("dlg", {})(seen)
        middle = time.process_time()
        told = f"dlg, picture {number}: {float(psnr(claim.pixels[0], own)[0]):.1f} dB"
        told += f" in {middle - began:.1f} s"
        if script:
            torch.manual_seed(1234 + number)
            targets = [gradient[name] for name, _ in model.named_parameters()]
            found = by_script(model, targets, data.classes)
            value = float(psnr(found.clamp(0, 1), own)[0])
            told += f"; script {value:.1f} dB in {time.process_time() - middle:.1f} s"
        print(told, flush=True)


def one_at_a_time(scorer: Scorer, target: Tensor) -> list[float]:
    """S_pri's terms as written: a gradient for each image and each point (ATS eq. 7)."""
    model = scorer.semi_trained.requires_grad_(True)
    parameters = list(model.parameters())

    def gradient(x: Tensor, y: Tensor) -> Tensor:
        loss = cross_entropy(model(x[None]), y[None])
        return torch.cat([part.flatten() for part in torch.autograd.grad(loss, parameters)])

    areas = []
    shares = [j / scorer.points for j in range(scorer.points)]
    for x0, x, y in zip(scorer.starts, target, scorer.y, strict=False):
        wanted = gradient(x, y)
        curve = [cosine_similarity(gradient((1 - i) * x0 + i * x, y), wanted, 0) for i in shares]
        areas.append(float(torch.stack(curve).mean()))
    return areas


def scoring(data: Dataset, count: int = 12, policies: int = 5) -> None:
    subject = Subject(data="cifar100", model="resnet20", epochs=1)
    model = untrained(subject, data, 0)
    scorer = scorer_of(subject, Search(images=count), data, lambda: model)
    ratios, worst = [], 0.0
    for number, policy in enumerate(random_policies(policies + 1, generator(0, "sample"))):
        began = time.process_time()
        slow = one_at_a_time(scorer, scorer.transformed(policy, 0, count))
        middle = time.process_time()
        fast = scorer.privacy(policy, 0, count)
        if number:  # the first warms up
            ratios.append((middle - began) / (time.process_time() - middle))
        worst = max(worst, *(abs(a - b) for a, b in zip(slow, fast, strict=True)))
    low, middle, high = statistics.quantiles(ratios, n=4)
    print(
        f"scoring: {middle:.2f} ({low:.2f}–{high:.2f}) times as fast as one image at a time, "
        f"{count} images, {policies} policies; scores differ by {worst:.1e} at most"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", default=["draws", "clients", "dlg", "scoring"])
    parser.add_argument("--pictures", nargs="+", type=int, default=list(range(12)))
    parser.add_argument("--without-script", action="store_true")
    given = parser.parse_args()
    torch.set_num_threads(1)
    skip_compiler()
    keep_pages()
    data = images()
    if "draws" in given.parts:
        draws(data)
    if "clients" in given.parts:
        clients(data)
    if "scoring" in given.parts:
        scoring(data)
    if "dlg" in given.parts:
        dlg(data, given.pictures, not given.without_script)


if __name__ == "__main__":
    main()
