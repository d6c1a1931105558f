"""SPN: a secret second head on every client (Fan et al. 2020)."""

from fedpriv.simulations.reproduce.experiment import Experiment, Item, Paper

DRAWING = "a drawing; it has nothing to measure"
SETTINGS = "a list of settings; the profile `paper` has them"
NO_EXPERIMENT = "no experiment of three seeds yet"
EXPERIMENTS: tuple[Experiment, ...] = ()


def shown(number: int, batch: int, data: str) -> Item:
    """A figure of PPC curves for one batch size."""
    return Item(
        where=f"figure {number}",
        claim=f"PPC curves on {data} at batch {batch}: SPN keeps accuracy where its noise exceeds "
        "the gradient, DP and PPDL do not.",
        why_not=NO_EXPERIMENT,
    )


def pictures(number: int, data: str) -> Item:
    return Item(
        where=f"figure {number}",
        claim=f"Reconstructions of {data} by region: nothing is seen in the green one (noise above "
        "the gradient), everything in the red one.",
        why_not=NO_EXPERIMENT,
    )


def caps(number: int, data: str) -> Item:
    return Item(
        where=f"table {number}",
        claim=f"CAP on {data}: SPN is best against reconstruction, membership and tracing at batch "
        "1, 4 and 8.",
        why_not=NO_EXPERIMENT,
    )


PAPER = Paper(
    "SPN",
    "Fan et al. 2020, Rethinking privacy preserving deep learning.",
    (
        Item(
            where="figure 1",
            claim="CAP on CIFAR-10 and CIFAR-100 at batch 1 and 8: SPN is best against all three "
            "attacks.",
            why_not=NO_EXPERIMENT,
        ),
        Item(where="figure 2", claim="Three attacks.", why_not=DRAWING),
        Item(where="figure 3", claim="The network.", why_not=DRAWING),
        Item(
            where="figure 4",
            claim="Gradients of cross-entropy and polarization are nearly orthogonal.",
            figures="cosines -0.003, 0.176, 0.024, 0.186",
            why_not=NO_EXPERIMENT,
        ),
        Item(
            where="figure 5",
            claim="PPC curves: attacks read DP and PPDL until accuracy falls; SPN keeps accuracy.",
            why_not=NO_EXPERIMENT,
        ),
        pictures(6, "CIFAR-10"),
        Item(
            where="figure 7",
            claim="Federated SPN is more accurate than FedAvg, FedAvg than standalone models.",
            figures="+2 to +3 points on CIFAR-10, about +0.2 on MNIST",
            why_not=NO_EXPERIMENT,
        ),
        Item(
            where="theorem 2.2",
            claim="A linear system recovers the input exactly; with noise its error obeys eq. 3.",
            why_not=NO_EXPERIMENT,
        ),
        Item(where="figure 8", claim="A convolution as a matrix.", why_not=DRAWING),
        Item(
            where="table 1",
            claim="CAP on CIFAR-10 and CIFAR-100: SPN is best in all 18 columns.",
            figures="CIFAR-10, batch 1: DP 0.57, PPDL 0.55 and 0.57, SPN 0.69; batch 8: 0.63, "
            "0.55, 0.61, 0.70",
            why_not=NO_EXPERIMENT,
        ),
        *(
            Item(where=f"table {number}", claim=what, why_not=SETTINGS)
            for number, what in (
                (2, "Settings of the attacks."),
                (3, "Settings of federated learning."),
                (4, "AlexNet."),
                (5, "VGG16."),
                (6, "DLNet."),
            )
        ),
        *(shown(9 + i, batch, "MNIST") for i, batch in enumerate((1, 4, 8))),
        pictures(12, "MNIST"),
        caps(7, "MNIST"),
        *(shown(13 + i, batch, "CIFAR-10") for i, batch in enumerate((1, 4, 8))),
        pictures(16, "CIFAR-10"),
        caps(8, "CIFAR-10"),
        *(shown(17 + i, batch, "CIFAR-100") for i, batch in enumerate((1, 4, 8))),
        pictures(20, "CIFAR-100"),
        caps(9, "CIFAR-100"),
        *(shown(21 + i, batch, "SVHN") for i, batch in enumerate((1, 4, 8))),
        pictures(24, "SVHN"),
        caps(10, "SVHN"),
        Item(
            where="figure 25",
            claim="CAP on MNIST and SVHN: SPN is best.",
            why_not=NO_EXPERIMENT,
        ),
        Item(
            where="figure 26",
            claim="Ablation on CIFAR-10 and CIFAR-100 (left and right).",
            why_not=NO_EXPERIMENT,
        ),
        Item(
            where="figure 27",
            claim="Ablation on CIFAR-10 and CIFAR-100 (left and right).",
            why_not=NO_EXPERIMENT,
        ),
        Item(
            where="table 11",
            claim="Accuracy of every mechanism with DLNet and round robin: SPN loses least.",
            why_not=NO_EXPERIMENT,
        ),
        Item(
            where="figure 28",
            claim="With AlexNet and VGG16, FedSPN is above FedAvg, PPDL and DP are below.",
            why_not=NO_EXPERIMENT,
        ),
        Item(
            where="figure 29",
            claim="The same on skewed data (Dirichlet 0.9).",
            why_not=NO_EXPERIMENT,
        ),
    ),
    EXPERIMENTS,
)
