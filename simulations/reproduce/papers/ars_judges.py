"""What ARS's claims need in order to hold, from the rows of the experiments."""

from collections.abc import Sequence
from itertools import pairwise

from fedpriv.simulations.reproduce.experiment import Finding, Judge
from fedpriv.simulations.reproduce.seeds import (
    BySeed,
    Interval,
    above,
    by_seed,
    differences,
    over,
    relative,
    ruled,
)
from fedpriv.tables import Row

BLIND, ADVERSARIAL, READING = "decoder", "adversarial-decoder", "mask-reading"
CLEAN = "attribute attribute=high codes=clean"
NOISY = "attribute attribute=high codes=noisy"
BEHIND = "attribute-behind-mask"
MIXES = ("pixels-2", "blend-2", "attribute-2")  # from all for the decoder to all for the attribute
CHANCE = 0.6  # of telling `high` by who knows whether the digit is odd, which is shared


def curve(rows: Sequence[Row]) -> Finding:
    """ARS against uniform noise of the same ε: more error for no less accuracy (figure 4)."""
    parts, answers = [], []
    for e in (1, 2, 3):
        noisy = by_seed(rows, "mse", run=f"ars-{e}", attack=(BLIND, ADVERSARIAL))
        plain = by_seed(rows, "mse", run=f"uniform-{e}", attack=(BLIND, ADVERSARIAL))
        more = over(relative(noisy, plain))
        lost = over(
            differences(
                by_seed(rows, "accuracy-clean", run=f"ars-{e}"),
                by_seed(rows, "accuracy-clean", run="none"),
            )
        )
        answers.append(above(more))
        parts.append(
            f"ε {e}: error against uniform noise {more.said(100, ' %', 0)}, accuracy "
            f"{lost.said(100, ' points')}"
        )
    return ruled(answers, "; ".join(parts), "decoders that do not read the mask")


def curve_read(rows: Sequence[Row]) -> Finding:
    """The same against an attacker who reads the mask and drops what is perturbed."""
    parts, answers = [], []
    for e in (1, 2, 3):
        noisy = by_seed(rows, "mse", run=f"ars-{e}", attack=(BLIND, ADVERSARIAL, READING))
        plain = by_seed(rows, "mse", run=f"uniform-{e}", attack=(BLIND, ADVERSARIAL))
        more = over(relative(noisy, plain))
        answers.append(above(more))
        parts.append(f"ε {e}: {more.said(100, ' %', 0)}")
    told = f"error of the strongest attacker against uniform noise: {'; '.join(parts)}"
    return ruled(answers, told, "informed: reads the mask")


def overlaps(rows: Sequence[Row]) -> Finding:
    """The less of a mask is known, the larger the error (table 6)."""
    rates = (0.0, 0.25, 0.5, 0.75, 1.0)
    found = {
        r: by_seed(rows, "mse", run="ars-2-overlap", attack=f"mask-overlap rate={r}") for r in rates
    }
    steps = [over(differences(found[a], found[b])) for a, b in pairwise(rates)]
    said = ", ".join(f"{100 * r:.0f} %: {over(found[r]).mean:.4f}" for r in rates)
    last = over(differences(found[0.0], found[1.0]))
    result = f"{said}; from 100 to 0 %: {last.said(1, '', 4)}"
    answers = [above(last), *("yes" if above(step) != "no" else "no" for step in steps)]
    return ruled(answers, result, "an analysis: part of the mask is given")


def columns(rows: Sequence[Row]) -> Finding:
    """More parties with columns learn more (table 3)."""
    accuracy = {k: by_seed(rows, "accuracy", run=f"k{k}") for k in (1, 2, 3)}
    steps = [over(differences(accuracy[k + 1], accuracy[k])) for k in (1, 2)]
    said = ", ".join(f"K = {k} {100 * over(accuracy[k]).mean:.1f} %" for k in accuracy)
    told = ", ".join(step.said(100, " points") for step in steps)
    majority = over(by_seed(rows, "majority")).mean
    result = f"accuracy {said}, steps {told}; majority class {100 * majority:.1f} %"
    return ruled([above(step) for step in steps], result, "no attacker: this is accuracy")


def columns_read(parties: int) -> Judge:
    """Noise brings what is read of a row below a half, for so many parties (table 3)."""
    run = f"k{parties}-ars-4"

    def judge(rows: Sequence[Row]) -> Finding:
        read = over(by_seed(rows, "categories", max, run=run))
        unread = over(by_seed(rows, "categories", max, run=run, attack=(BLIND, ADVERSARIAL)))
        guess = over(by_seed(rows, "categories-blind", max, run=run))
        told = ", ".join(
            f"{name} {100 * one.mean:.0f} % ({100 * max(one.low, 0):.0f} to "
            f"{100 * min(one.high, 1):.0f})"
            for name, one in (("who reads the mask", read), ("decoders that do not", unread))
        )
        result = f"categories read at ε 4: {told}, a blind guess {100 * guess.mean:.0f} %"
        below = "yes" if read.high < 0.5 else "no" if read.low > 0.5 else "open"
        return ruled((below,), result, "informed: reads the mask")

    return judge


def thief(rows: Sequence[Row], run: str, *attacks: str) -> BySeed:
    return by_seed(rows, "attribute-hit", max, run=run, attack=attacks)


def hidden(rows: Sequence[Row]) -> Finding:
    """A thief falls to chance where noise is all for the attribute (figure 8)."""
    before = over(thief(rows, "none", CLEAN, NOISY))
    blind = over(thief(rows, "attribute-2", CLEAN))
    aware = over(thief(rows, "attribute-2", NOISY))
    read = over(thief(rows, "attribute-2", BEHIND))
    said = [
        f"{name} {100 * one.mean:.1f} % ({100 * one.low:.1f} to {100 * one.high:.1f})"
        for name, one in (
            ("no noise", before),
            ("thief of clean codes", blind),
            ("of noisy codes", aware),
            ("who reads the mask", read),
        )
    ]
    holds = "no" if read.low > CHANCE else "yes" if read.high < CHANCE else "open"
    return ruled((holds,), "; ".join(said), "informed: reads the mask; chance is 60 %")


def pulled(rows: Sequence[Row]) -> Finding:
    """The more weight an attribute has, the more often its classifier says the target."""
    rates = {run: by_seed(rows, "rate-r", run=run, attack=CLEAN) for run in MIXES}
    first = over(differences(rates["blend-2"], rates["pixels-2"]))
    second = over(differences(rates["attribute-2"], rates["blend-2"]))
    said = ", ".join(f"{run} {100 * over(r).mean:.0f} %" for run, r in rates.items())
    result = f"{said}; steps {first.said(100, ' points')}, {second.said(100, ' points')}"
    return ruled((above(first), above(second)), result, "blind: a thief of clean codes")


def composed(rows: Sequence[Row], attack: tuple[str, ...]) -> tuple[Interval, Interval, str]:
    found = {run: by_seed(rows, "psnr", max, run=run, attack=attack) for run in MIXES}
    first = over(differences(found["blend-2"], found["pixels-2"]))
    second = over(differences(found["attribute-2"], found["blend-2"]))
    said = ", ".join(f"{run} {over(found[run]).mean:.1f} dB" for run in MIXES)
    return first, second, said


def composition(*attacks: str, against: str) -> Judge:
    """The larger the decoder's weight, the lower the PSNR (table 4)."""

    def judge(rows: Sequence[Row]) -> Finding:
        first, second, said = composed(rows, attacks)
        result = f"{said}; steps {first.said(1, ' dB')}, {second.said(1, ' dB')}"
        return ruled((above(first), above(second)), result, against)

    return judge
