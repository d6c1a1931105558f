"""What ATS's claims need in order to hold, from the rows of the experiments."""

from collections.abc import Sequence

import numpy as np

from fedpriv.simulations.reproduce.experiment import Finding, Judge
from fedpriv.simulations.reproduce.seeds import BySeed, above, by_seed, differences, over, ruled
from fedpriv.tables import Row

BLIND, READER = "adam+cosine", "policy-aware"
TRAINED, ORIGINAL, SHIFTED = "psnr-trained", "psnr", "psnr-shifted"
POINTS = 0.02  # of accuracy: what the paper calls a small loss


def column(rows: Sequence[Row], name: str, defence: str, value: str, attack: str = BLIND) -> BySeed:
    """One column of a defence, seed by seed; the mean over all its values where none is named."""
    wanted = {"value": value} if value else {}
    return by_seed(
        rows, name, lambda found: float(np.mean(found)), defence=defence, attack=attack, **wanted
    )


def lowers(defence: str, value: str = "", than_random: bool = True) -> Judge:
    """By the paper's measure a policy takes decibels, more than random ones, at no great cost."""

    def judge(rows: Sequence[Row]) -> Finding:
        plain = column(rows, TRAINED, "none", "")
        own = column(rows, TRAINED, defence, value)
        taken = over(differences(plain, own))
        cost = over(
            differences(
                column(rows, "accuracy", defence, value), column(rows, "accuracy", "none", "")
            )
        )
        answers = [above(taken), above(cost, -POINTS)]
        told = [f"takes {taken.said(1, ' dB')}", f"accuracy {cost.said(100, ' points')}"]
        if than_random:
            more = over(differences(column(rows, TRAINED, "random", ""), own))
            answers.append(above(more))
            told.append(f"more than random ones by {more.said(1, ' dB')}")
        told.append(f"without a policy {over(plain).mean:.1f} dB")
        return ruled(answers, "; ".join(told), "blind, scored against the transformed image")

    return judge


def every_attack(defence: str) -> Judge:
    """A policy takes decibels from each attack that does not know it (table 2)."""

    def judge(rows: Sequence[Row]) -> Finding:
        names = sorted({str(row["attack"]) for row in rows} - {READER})
        taken = {
            name: over(
                differences(
                    column(rows, TRAINED, "none", "", name),
                    column(rows, TRAINED, defence, "", name),
                )
            )
            for name in names
        }
        told = "; ".join(f"{name} loses {one.said(1, ' dB')}" for name, one in taken.items())
        answers = [above(one) for one in taken.values()]
        return ruled(answers, told, "blind, scored against the transformed image")

    return judge


def better_than(defence: str, others: Sequence[str]) -> Judge:
    """A policy leaves fewer decibels and more accuracy than each value of the others (table 3)."""

    def judge(rows: Sequence[Row]) -> Finding:
        own, learned = column(rows, TRAINED, defence, ""), column(rows, "accuracy", defence, "")
        answers, told = [], []
        for other in others:
            for value in dict.fromkeys(row["value"] for row in rows if row["defence"] == other):
                seen, kept = (
                    by_seed(rows, name, defence=other, value=value, attack=BLIND)
                    for name in (TRAINED, "accuracy")
                )
                more, gain = over(differences(seen, own)), over(differences(learned, kept))
                answers += [above(more), above(gain)]
                told.append(
                    f"{other} {value}: leaves {more.said(1, ' dB')} more, accuracy of the policy "
                    f"{gain.said(100, ' points')} better"
                )
        return ruled(answers, "; ".join(told), "blind, scored against the transformed image")

    return judge


def hides(defence: str, value: str = "") -> Judge:
    """A policy hides the client's own image from who knows the policy and allows for a move."""

    def judge(rows: Sequence[Row]) -> Finding:
        plain = column(rows, SHIFTED, "none", "")
        known = column(rows, SHIFTED, defence, value, READER)
        blind = column(rows, SHIFTED, defence, value)
        seen = {seed: max(known[seed], blind[seed]) for seed in known if seed in blind}
        taken = over(differences(plain, seen))
        scores = {
            "transformed": (TRAINED, BLIND),
            "original": (ORIGINAL, BLIND),
            "original up to a move": (SHIFTED, BLIND),
            "who knows the policy": (ORIGINAL, READER),
            "who knows, up to a move": (SHIFTED, READER),
        }
        told = [
            f"{name} {over(column(rows, metric, defence, value, attack)).mean:.1f} dB"
            for name, (metric, attack) in scores.items()
        ]
        none = over(plain).mean
        guess = over(column(rows, f"{SHIFTED}-blind", defence, value)).mean
        result = f"takes {taken.said(1, ' dB')} from the better of the two attackers; "
        result += f"{', '.join(told)}; without a policy {none:.1f}, blind guess {guess:.1f} dB"
        return ruled((above(taken),), result, "informed, best over moves")

    return judge
