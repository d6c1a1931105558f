"""RAN: an encoder trained for a classifier and against a decoder (Liu et al. 2018)."""

from collections.abc import Sequence

from fedpriv.simulations.reproduce.experiment import Experiment, Finding, Item, Judge, Paper
from fedpriv.simulations.reproduce.seeds import above, by_seed, differences, over, relative, ruled
from fedpriv.tables import Row

DRAWING = "a drawing"
FRESH = ("adversarial-decoder", "even-decoder", "large-decoder")
INFORMED = "informed: fresh decoders, one standardises codes, one is twice as large; the strongest"
LAMBDAS = ("0.1", "0.5", "0.9")
RAN = "ran-mean-0.1"
NOISES = tuple(f"{kind}-{scale}" for kind in ("noisy", "dnn-resized") for scale in (0.1, 0.5, 0.9))
MEANS = ("ran-mean-0.1", "ran-mean-0.9")
POINT = 0.01  # of accuracy: what counts as no loss

EXPERIMENTS = (
    Experiment(
        name="ran-mnist",
        scenario="ran-mnist",
        about="MNIST, 6,000 digits of three parties, ran-lenet",
        rule="architecture, epochs and k are the paper's or were chosen with seeds 7 and 8; λ is "
        "the paper's range. Seeds 101 to 103 were not looked at before; 104 and 105 are added "
        "where these three are undecided. The bound of figure 4, a point, is that of the "
        "others; its judge was written when they were known.",
        spare=(104, 105),
        variants=(
            "dnn",
            "ran-0.1",
            "ran-0.5",
            "ran-0.9",
            "ran-printed-0.9",
            "ran-mean-0.1",
            "ran-mean-0.9",
        ),
        metrics=("mse", "psnr", "attribute-hit"),
    ),
    Experiment(
        name="ran-mnist-noise",
        scenario="ran-mnist",
        about="MNIST, 6,000 digits of three parties, ran-lenet",
        rule="as ran-mnist; RAN is the row that the pilots with seeds 7 and 8 singled out.",
        variants=(RAN, *NOISES),
    ),
    *(
        Experiment(
            name=f"ran-{data}",
            scenario=f"ran-{data}",
            about=about,
            rule="sizes and epochs were chosen by time; λ is the middle of the paper's range.",
            spare=(104, 105),
            variants=("dnn", "ran-0.5", "ran-0.9", "ran-0.1"),
            metrics=("mse", "psnr", "attribute-hit"),
        )
        for data, about in (
            ("har", "HAR, 2,400 signals of three parties, conv 8-16"),
            ("cifar10", "CIFAR-10, 3,000 pictures of three parties, conv 8-16"),
        )
    ),
)


def errors(rows: Sequence[Row], run: str) -> dict[int, float]:
    """The error of the strongest fresh decoder of each seed."""
    return by_seed(rows, "mse", run=run, attack=(*FRESH, "take-as-is"))


def harder(run: str) -> Judge:
    """RAN's codes are harder to invert than plain features, for at most a point of accuracy."""

    def judge(rows: Sequence[Row]) -> Finding:
        error = over(relative(errors(rows, run), errors(rows, "dnn")))
        accuracy = over(
            differences(by_seed(rows, "accuracy", run=run), by_seed(rows, "accuracy", run="dnn"))
        )
        result = f"error {error.said(100, ' %')}; accuracy {accuracy.said(100, ' points', 2)}"
        return ruled((above(error), above(accuracy, -POINT)), result, INFORMED)

    return judge


def noise_is_worse(rows: Sequence[Row]) -> Finding:
    """No noise is as accurate as RAN, within a point, and as hard to invert (figure 3)."""
    error, accuracy = errors(rows, RAN), by_seed(rows, "accuracy", run=RAN)
    parts, better = [], []
    for run in NOISES:
        harder = over(relative(errors(rows, run), error))
        gain = over(differences(by_seed(rows, "accuracy", run=run), accuracy))
        parts.append(f"{run}: error {harder.said(100, ' %')}, accuracy {gain.said(100, ' points')}")
        better.append(
            "no"
            if harder.high < 0 or gain.high < -POINT
            else "yes"
            if harder.low > 0 and gain.low > -POINT
            else "open"
        )
    answer = "no" if "yes" in better else "yes" if set(better) == {"no"} else "open"
    return ruled((answer,), f"against {RAN}: {'; '.join(parts)}", INFORMED)


def separable(rows: Sequence[Row]) -> Finding:
    """A fresh classifier of RAN's codes is as accurate as one of plain features (figure 4)."""
    plain = by_seed(rows, "accuracy", run="dnn")
    runs = sorted({str(row["run"]) for row in rows} - {"dnn"})
    gaps = {run: over(differences(by_seed(rows, "accuracy", run=run), plain)) for run in runs}
    told = "; ".join(f"{run} {gap.said(100, ' points', 2)}" for run, gap in gaps.items())
    answers = [above(gaps[run], -POINT) for run in MEANS]
    result = f"plain features {over(plain).mean:.1%}; {told}"
    return ruled(answers, result, "no attacker: this is accuracy")


def own_decoder(rows: Sequence[Row]) -> Finding:
    """RAN's own decoder errs more than a fresh one, at λ 0.1, 0.5 and 0.9."""
    parts, answers = [], []
    for lam in LAMBDAS:
        own = by_seed(rows, "mse", run=f"ran-{lam}", attack="own-decoder")
        more = over(relative(own, errors(rows, f"ran-{lam}")))
        answers.append(above(more))
        parts.append(f"λ {lam}: {more.said(100, ' %')}")
    told = f"own against fresh decoder: {'; '.join(parts)}"
    return ruled(answers, told, "an analysis: the own decoder is given")


def own_classifier(rows: Sequence[Row]) -> Finding:
    """The accuracy of RAN's own classifier at its best λ is at least that of plain features."""
    hits = {
        run: by_seed(rows, "attribute-hit", max, run=run, attack="own-classifier")
        for run in ("dnn", *(f"ran-{lam}" for lam in LAMBDAS))
    }
    parts, answers = [], []
    for run, own in list(hits.items())[1:]:
        gain = over(differences(own, hits["dnn"]))
        answers.append(above(gain))
        parts.append(f"{run} {gain.said(100, ' points')}")
    base = over(hits["dnn"])
    told = f"plain features {100 * base.mean:.1f} %; {'; '.join(parts)}"
    # The claim is about proper λ: one is enough, and it is refuted only if all are below.
    best = "yes" if "yes" in answers else "no" if set(answers) == {"no"} else "open"
    return ruled((best,), told, "no attacker: this is accuracy")


PAPER = Paper(
    "RAN",
    "Liu et al. 2018, Better accuracy and privacy: reconstructive adversarial network.",
    (
        Item(where="figure 1", claim="The framework.", nothing=DRAWING),
        Item(where="figure 2", claim="The network.", nothing=DRAWING),
        *(
            Item(
                where=f"figure 3, MNIST, {what}",
                claim="Codes are harder to invert than plain features, for at most a point of "
                "accuracy.",
                figures="a plot; at least 95 %",
                experiment="ran-mnist",
                judge=harder(run),
                runs=("dnn", run),
            )
            for what, run in (
                ("λ = 0.1", "ran-0.1"),
                ("λ = 0.5", "ran-0.5"),
                ("λ = 0.9", "ran-0.9"),
                ("λ = 0.9, as printed", "ran-printed-0.9"),
                ("λ = 0.1 of a mean over pixels (0.989 of the sum)", "ran-mean-0.1"),
                ("λ = 0.9 of a mean over pixels (0.99986 of the sum)", "ran-mean-0.9"),
            )
        ),
        Item(
            where="figure 3, MNIST, own classifier",
            claim="With a proper λ RAN's own classifier is more accurate than the plain network.",
            figures="a plot; at least 95 %",
            experiment="ran-mnist",
            judge=own_classifier,
            runs=("dnn", *(f"ran-{lam}" for lam in LAMBDAS)),
        ),
        Item(
            where="figure 3, MNIST, own decoder",
            claim="RAN's own decoder errs more than a fresh one.",
            figures="a plot",
            experiment="ran-mnist",
            judge=own_decoder,
            runs=tuple(f"ran-{lam}" for lam in LAMBDAS),
        ),
        Item(
            where="figure 3, MNIST, noise",
            claim="Noisy data and resized features with noise of 0.1 to 0.9 are worse than RAN.",
            figures="accuracy from 20 to 93 %",
            experiment="ran-mnist-noise",
            judge=noise_is_worse,
            runs=(RAN, *NOISES),
        ),
        Item(
            where="figure 3, HAR, λ = 0.5",
            claim="Codes of motion signals are harder to invert than plain features.",
            figures="a plot; at least 95 %",
            experiment="ran-har",
            judge=harder("ran-0.5"),
            runs=("dnn", "ran-0.5"),
        ),
        Item(
            where="section 3.1, CIFAR-10, λ = 0.5",
            claim="The same on CIFAR-10.",
            figures="at least 76 %",
            experiment="ran-cifar10",
            judge=harder("ran-0.5"),
            runs=("dnn", "ran-0.5"),
        ),
        Item(
            where="figure 3, ImageNet",
            claim="The same on ImageNet.",
            why_not="ImageNet is not at hand; CIFAR-10 stands for it in the paper's text",
        ),
        Item(
            where="figure 3, UbiSound",
            claim="The same on sounds.",
            why_not="UbiSound is not at hand",
        ),
        Item(
            where="figure 4",
            claim="RAN's codes are as separable as plain features: a classifier that is trained on "
            "them is as accurate, within a point.",
            experiment="ran-mnist",
            judge=separable,
            runs=("dnn", *MEANS),
        ),
        Item(
            where="figure 5",
            claim="Of two ImageNet classes, RAN's codes drop the background.",
            why_not="ImageNet is not at hand",
        ),
        Item(
            where="figure 6",
            claim="Reconstructions of two ImageNet pictures are corrupted.",
            why_not="ImageNet is not at hand",
        ),
        Item(where="figure 7", claim="A manifold.", nothing=DRAWING),
    ),
    EXPERIMENTS,
)
