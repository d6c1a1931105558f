"""What SPN's claims need in order to hold, from the rows of the experiments."""

import math
from collections.abc import Sequence

import numpy as np

from fedpriv.metrics.tradeoff import region
from fedpriv.simulations.reproduce.experiment import Finding, Judge
from fedpriv.simulations.reproduce.seeds import (
    BySeed,
    Interval,
    above,
    by_seed,
    differences,
    over,
    ruled,
)
from fedpriv.tables import Row

BLIND, READER = "dlg", "spn-aware"
WORKS = (BLIND, "quick")  # at batch 8, where DLG alone is worse than a blind guess
OTHERS = ("noise", "ppdl-5", "ppdl-30")  # the paper's mechanisms beside SPN
ALIKE = 0.1  # of a relative error, which is about 1 for an attack that fails
GREEN = math.log10(2)  # m below it: what is added is larger than the gradient
KINDS = {"reconstruction": "relative-error", "membership": "membership", "tracing": "tracing"}


def gains(rows: Sequence[Row]) -> Finding:
    """FedSPN is more accurate than FedAvg: the mean of the last five rounds, seed by seed."""
    spn, plain = (by_seed(rows, "accuracy-last", run=run) for run in ("fedspn-10", "fedavg-10"))
    found = over(differences(spn, plain))
    result = f"{found.said(100, ' points', 2)}; FedAvg {over(plain).mean:.1%}, {levels(rows)}"
    return ruled((above(found),), result, "")


def levels(rows: Sequence[Row]) -> str:
    """The standard error of one accuracy, and the majority class."""
    return (
        f"standard error of one {float(rows[0]['accuracy-se']):.1%}, "
        f"majority class {float(rows[0]['majority']):.0%}"
    )


def hidden(batch: int) -> Judge:
    """SPN hides a batch: who knows of it sees no more than a blind guess."""

    def judge(rows: Sequence[Row]) -> Finding:
        def of(defence: str, attack: str, column: str) -> BySeed:
            return by_seed(rows, column, defence=defence, attack=attack, batch=batch)

        seen, guess = (of("spn", READER, column) for column in ("psnr", "psnr-blind"))
        found = over(differences(guess, seen))
        told = {
            "who knows": over(seen),
            "DLG": over(of("spn", BLIND, "psnr")),
            "DLG without a defence": over(of("none", BLIND, "psnr")),
            "blind guess": over(guess),
        }
        labels = over(of("spn", READER, "label-overlap")).mean
        result = ", ".join(f"{name} {one.mean:.1f} dB" for name, one in told.items())
        gap = Interval(-found.mean, -found.high, -found.low, found.seeds)
        result += f"; who knows has {gap.said(1, ' dB')} over the blind guess, labels {labels:.0%}"
        return ruled((above(found),), result, "informed")

    return judge


def cap_of(
    rows: Sequence[Row], defence: str, batch: int, column: str, attacks: Sequence[str] = ()
) -> BySeed:
    """CAP by seed: the mean over a defence's values of accuracy x distance (SPN eq. 1).

    Of several attacks the smallest distance counts, value by value; without names, of all.
    """
    found: dict[int, dict[str, list[Row]]] = {}
    for row in rows:
        own = row["defence"] == defence and row["batch"] == batch
        if own and (not attacks or row["attack"] in attacks):
            value = str(row.get("value", ""))  # no defence has none
            found.setdefault(int(row["seed"]), {}).setdefault(value, []).append(row)
    return {
        seed: float(
            np.mean(
                [
                    float(same[0]["accuracy"]) * min(float(row[column]) for row in same)
                    for same in by_value.values()
                ]
            )
        )
        for seed, by_value in found.items()
    }


def best(batch: int, attacks: Sequence[str] = (), against: str = "informed") -> Judge:
    """By CAP, SPN is above noise and both kinds of PPDL against all three attacks."""

    def judge(rows: Sequence[Row]) -> Finding:
        if not any(row["batch"] == batch for row in rows):
            return Finding("not done", f"the small profile has no batch of {batch}")
        answers, told = [], []
        for kind, column in KINDS.items():
            caps = {
                name: cap_of(rows, name, batch, column, attacks)
                for name in ("none", *OTHERS, "dp", "spn")
            }
            gaps = {name: over(differences(caps["spn"], caps[name])) for name in OTHERS}
            answers += [above(gap) for gap in gaps.values()]
            means = ", ".join(f"{name} {over(cap).mean:.2f}" for name, cap in caps.items())
            nearest = min(gaps, key=lambda name: gaps[name].mean)
            told.append(f"{kind}: {means}; SPN − {nearest} {gaps[nearest].said(1, '', 2)}")
        told.append(without(rows, batch, attacks))
        return ruled(answers, ". ".join(told), against)

    return judge


def without(rows: Sequence[Row], batch: int, attacks: Sequence[str]) -> str:
    """Whether the attack beats a blind guess where there is no defence at all."""
    names = tuple(attacks) or tuple({str(row["attack"]) for row in rows})
    own = [row for row in rows if row["defence"] == "none" and row["attack"] in names]
    error = over(by_seed(own, "relative-error", batch=batch))
    guess = over(by_seed(own, "relative-error-blind", max, batch=batch))
    told = f"Without a defence the attack errs {error.mean:.2f}, a blind guess {guess.mean:.2f}"
    if error.mean < guess.mean:
        return told
    return f"{told}: it fails on its own, so that this compares failed attacks"


def curves(batch: int) -> Judge:
    """Where noise exceeds the gradient, SPN is more accurate than each other mechanism (PPC)."""

    def green(rows: Sequence[Row], defence: str) -> BySeed:
        own = [row for row in rows if float(row.get("m", math.inf)) < GREEN]
        return by_seed(own, "accuracy", max, defence=defence, attack=BLIND, batch=batch)

    def judge(rows: Sequence[Row]) -> Finding:
        plain = by_seed(rows, "accuracy", defence="none", attack=BLIND, batch=batch)
        found = {name: green(rows, name) for name in ("spn", *OTHERS)}
        gaps = {name: over(differences(found["spn"], found[name])) for name in OTHERS}
        lost = over(differences(found["spn"], plain))
        means = ", ".join(f"{name} {over(values).mean:.1%}" for name, values in found.items())
        nearest = min(gaps, key=lambda name: gaps[name].mean)
        result = (
            f"best accuracy with noise above the gradient: {means}, without a defence "
            f"{over(plain).mean:.1%}; SPN − {nearest} {gaps[nearest].said(100, ' points')}, SPN "
            f"− none {lost.said(100, ' points')}; {levels(rows)}"
        )
        return ruled([above(gap) for gap in gaps.values()], result, "no attacker: this is accuracy")

    return judge


def by_region(batch: int) -> Judge:
    """DLG errs more than a blind guess in the green region, less in the red one (SPN fig. 5)."""

    def errors(rows: Sequence[Row], colour: str, column: str, blind: bool) -> BySeed:
        own = [
            row
            for row in rows
            if row["batch"] == batch
            and row["defence"] != "none"
            and region(float(row["m"])) == colour
            and (row["attack"] == BLIND if blind else bool(row.get("knows")))
        ]
        return by_seed(own, column, lambda values: float(np.mean(values)))

    def judge(rows: Sequence[Row]) -> Finding:
        answers, told = [], []
        for colour, hides in (("green", True), ("red", False)):
            error, guess = (
                errors(rows, colour, column, blind=True)
                for column in ("relative-error", "relative-error-blind")
            )
            gap = over(differences(error, guess) if hides else differences(guess, error))
            answers.append(above(gap))
            told.append(
                f"{colour}: DLG errs {over(error).mean:.2f}, a blind guess {over(guess).mean:.2f}, "
                f"which is {gap.said(1, '', 2)} {'less' if hides else 'more'}"
            )
        if reader := errors(rows, "green", "relative-error", blind=False):
            told.append(f"who knows the defence errs {over(reader).mean:.2f} in the green one")
        return ruled(answers, "; ".join(told), "blind: DLG, as in the paper")

    return judge


def accurate(rows: Sequence[Row]) -> Finding:
    """SPN loses less accuracy than the other mechanisms, in the mean over their values."""

    def mean(defence: str) -> BySeed:
        return by_seed(
            rows, "accuracy", lambda values: float(np.mean(values)), defence=defence, attack=BLIND
        )

    found = {name: mean(name) for name in ("none", *OTHERS, "dp", "spn")}
    gaps = [over(differences(found["spn"], found[name])) for name in OTHERS]
    nearest = min(gaps, key=lambda gap: gap.mean)
    result = ", ".join(f"{name} {over(values).mean:.1%}" for name, values in found.items())
    result += f"; SPN − the best other {nearest.said(100, ' points')}; {levels(rows)}"
    return ruled([above(gap) for gap in gaps], result, "")


def alike(rows: Sequence[Row]) -> Finding:
    """Laplace and Gaussian noise of one scale leave DLG the same error, within ALIKE."""
    scales = sorted({float(row["value"]) for row in rows})
    answers, told = [], []
    for scale in scales:
        laplace, gaussian = (
            by_seed(rows, "relative-error", defence=kind, value=scale, attack=BLIND)
            for kind in ("laplace", "gaussian")
        )
        found = over(differences(laplace, gaussian))
        within = found.low > -ALIKE and found.high < ALIKE
        beyond = found.low > ALIKE or found.high < -ALIKE
        answers.append("yes" if within else "no" if beyond else "open")
        told.append(f"scale {scale:g}: {over(gaussian).mean:.2f}, Laplace {found.said(1, '', 2)}")
    result = f"relative error of Gaussian noise: {'; '.join(told)}; alike means within {ALIKE}"
    return ruled(answers, result, "blind")


def more_bits(rows: Sequence[Row]) -> Finding:
    """More bits of the secret code leave DLG a larger error; who knows of it stands beside."""
    bits = sorted({float(row["value"]) for row in rows})
    few, many = bits[0], bits[-1]
    answers, told = [], []
    for attack, name in ((BLIND, "DLG"), (READER, "who knows")):
        errors = {one: by_seed(rows, "relative-error", value=one, attack=attack) for one in bits}
        found = over(differences(errors[many], errors[few]))
        means = ", ".join(f"{one:.0f} bits {over(errors[one]).mean:.2f}" for one in bits)
        told.append(f"{name}: {means}, from {few:.0f} to {many:.0f} {found.said(1, '', 2)}")
        if attack == BLIND:
            answers.append(above(found))
    return ruled(answers, f"relative error of {'; '.join(told)}", "blind")
