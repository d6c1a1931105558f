"""What SPN's claims need in order to hold, from the rows of the experiments."""

from collections.abc import Sequence

import numpy as np

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
OTHERS = ("noise", "ppdl-5", "ppdl-30")  # the paper's mechanisms beside SPN
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


def cap_of(rows: Sequence[Row], defence: str, batch: int, column: str, informed: bool) -> BySeed:
    """CAP by seed: the mean over a defence's values of accuracy x distance (SPN eq. 1).

    Of an informed attacker: the smaller distance of the two attacks, value by value.
    """
    found: dict[int, dict[str, list[Row]]] = {}
    for row in rows:
        own = row["defence"] == defence and row["batch"] == batch
        if own and (informed or row["attack"] == BLIND):
            found.setdefault(int(row["seed"]), {}).setdefault(str(row["value"]), []).append(row)
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


def best(batch: int, informed: bool = False) -> Judge:
    """By CAP, SPN is above noise and both kinds of PPDL against all three attacks."""

    def judge(rows: Sequence[Row]) -> Finding:
        if not any(row["batch"] == batch for row in rows):
            return Finding("not done", f"the small profile has no batch of {batch}")
        answers, told = [], []
        for kind, column in KINDS.items():
            caps = {
                name: cap_of(rows, name, batch, column, informed)
                for name in ("none", *OTHERS, "dp", "spn")
            }
            gaps = {name: over(differences(caps["spn"], caps[name])) for name in OTHERS}
            answers += [above(gap) for gap in gaps.values()]
            means = ", ".join(f"{name} {over(cap).mean:.2f}" for name, cap in caps.items())
            nearest = min(gaps, key=lambda name: gaps[name].mean)
            told.append(f"{kind}: {means}; SPN − {nearest} {gaps[nearest].said(1, '', 2)}")
        return ruled(answers, ". ".join(told), "informed" if informed else "blind")

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
