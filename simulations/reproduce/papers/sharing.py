"""Codes beside updates of the same samples: which way leaks least for what it learns?"""

from collections.abc import Sequence

from fedpriv.simulations.reproduce.experiment import Experiment, Finding, Item, Judge, Paper
from fedpriv.simulations.reproduce.papers.ran import FRESH, POINT
from fedpriv.simulations.reproduce.seeds import by_seed, differences, over, ruled
from fedpriv.tables import Row

DATA = (
    ("MNIST", "mnist", "6,000 digits", "ran-mean-0.1"),
    ("CIFAR-10", "cifar10", "3,000 pictures", "ran-0.5"),
)


def fewer_leaks(codes: str, batch: int) -> Judge:
    """No update of so many samples is as accurate as codes, within a point, and hides more."""

    def judge(rows: Sequence[Row]) -> Finding:
        own = [row for row in rows if row.get("run") == codes]
        seen = by_seed(own, "psnr", max, attack=(*FRESH, "take-as-is"))
        learned = by_seed(own, "accuracy")
        guess = by_seed(own, "psnr-blind", attack=FRESH)
        told = [
            f"codes ({codes}) {over(learned).mean:.1%} and {over(seen).mean:.1f} dB, a blind guess "
            f"{over(guess).mean:.1f} dB"
        ]
        answers = []
        updates = [row for row in rows if row.get("batch") == batch]
        for defence, value in dict.fromkeys((row["defence"], row["value"]) for row in updates):
            same = [row for row in updates if (row["defence"], row["value"]) == (defence, value)]
            more = over(differences(by_seed(same, "psnr", max), seen))
            gain = over(differences(by_seed(same, "accuracy"), learned))
            answers.append(
                "no"
                if more.high < 0 and gain.low > -POINT
                else "yes"
                if more.low > 0 or gain.high < -POINT
                else "open"
            )
            told.append(
                f"updates, {' '.join(map(str, filter(None, (defence, value))))}: "
                f"{more.said(1, ' dB')} more, accuracy {gain.said(100, ' points')}"
            )
        return ruled(answers, "; ".join(told), "informed: the strongest attacker of each")

    return judge


PAPER = Paper(
    "Pareto",
    "A question that no paper asks: which way of sharing leaks least for what it learns?",
    tuple(
        Item(
            where=f"{name}, updates of {batch}",
            claim=f"Codes of RAN leak least: no update of {batch} sample{'s' * (batch > 1)} is as "
            "accurate, within a point, and hides more.",
            experiment=f"updates-{data}",
            beside=f"ran-{data}",
            judge=fewer_leaks(codes, batch),
        )
        for name, data, _, codes in DATA
        for batch in (1, 8)
    ),
    tuple(
        Experiment(
            name=f"updates-{data}",
            scenario=f"updates-{data}",
            about=f"{name}, {samples} of three parties, LeNet, 20 rounds; one step of the first "
            "round is attacked",
            rule=f"rates are those of `spn-fig7`; attacks and defences are those of the table of "
            f"SPN; the codes are `ran-{data}`'s of {codes}. All of it was fixed before the seeds "
            "were run.",
            work="sweep",
            metrics=("psnr", "mse"),
        )
        for name, data, samples, codes in DATA
    ),
)
