"""ATS: searched augmentation policies (Gao et al. 2021)."""

from fedpriv.simulations.reproduce.experiment import Experiment, Item, Paper

PICTURES = "single pictures; no number to test"
NO_EXPERIMENT = "no experiment of three seeds yet"
EXPERIMENTS: tuple[Experiment, ...] = ()


def table1(letter: str, what: str, figures: str) -> Item:
    return Item(
        where=f"table 1{letter}",
        claim=f"{what}: searched policies lower the PSNR of Adam+Cosine, random ones hardly; the "
        "hybrid keeps accuracy.",
        figures=figures,
        why_not=NO_EXPERIMENT,
    )


PAPER = Paper(
    "ATS",
    "Gao et al. 2021, Privacy-preserving collaborative learning with automatic transformation "
    "search.",
    (
        Item(where="figure 1", claim="How an attack goes on.", why_not=PICTURES),
        Item(
            where="figure 2",
            claim="S_pri predicts the PSNR of an attack.",
            figures="Pearson's r about 0.7",
            why_not=NO_EXPERIMENT,
        ),
        Item(
            where="figure 3",
            claim="Policies do not slow training down on the validation set.",
            why_not=NO_EXPERIMENT,
        ),
        Item(where="figure 4", claim="Reconstructions with and without.", why_not=PICTURES),
        table1("a", "CIFAR-100, ResNet20", "none 13.88 dB, random 11.41, hybrid 7.64"),
        table1("b", "CIFAR-100, ConvNet", "none 13.07 dB, random 12.18, hybrid 6.83"),
        table1("c", "F-MNIST, ResNet20", "none 10.04 dB, random 9.23, hybrid 7.60"),
        table1("d", "F-MNIST, ConvNet", "none 9.12 dB, random 8.83, hybrid 6.94"),
        Item(
            where="table 2",
            claim="The hybrid lowers the PSNR of six attacks.",
            figures="Adam+Cosine 13.88 to 7.64 dB, LBFGS+L2 6.93 to 4.79",
            why_not=NO_EXPERIMENT,
        ),
        Item(
            where="table 3",
            claim="Pruning and noise lower the PSNR less and cost more accuracy.",
            figures="hybrid 7.64 dB and 77.9 %; Gaussian 0.01 11.44 dB and 48.2 %",
            why_not=NO_EXPERIMENT,
        ),
        Item(
            where="table 4a",
            claim="Policies of CIFAR-100 work on F-MNIST with ResNet20.",
            figures="none 10.04 dB, hybrid 8.14",
            why_not=NO_EXPERIMENT,
        ),
        Item(
            where="table 4b",
            claim="Policies of CIFAR-100 work on F-MNIST with ConvNet.",
            figures="none 9.12 dB, hybrid 7.11",
            why_not=NO_EXPERIMENT,
        ),
        Item(
            where="figure 5",
            claim="Shift, brightness and contrast have the lowest S_pri of 50 transformations.",
            figures="the five lowest are 3, 15, 18, 26, 1",
            why_not=NO_EXPERIMENT,
        ),
        Item(
            where="figure 6",
            claim="In shallow layers gradients stay dissimilar under a searched policy; in deep "
            "ones they do not.",
            why_not=NO_EXPERIMENT,
        ),
        Item(
            where="table 5",
            claim="The 50 transformations.",
            why_not="a list; tests compare each with Pillow",
        ),
        Item(
            where="table 6",
            claim="More searched policies lower the PSNR too.",
            why_not=NO_EXPERIMENT,
        ),
        Item(
            where="table 7",
            claim="Starting from black pixels does not help an attacker who knows of the shift.",
            figures="6.58 and 6.64 dB",
            why_not=NO_EXPERIMENT,
        ),
        Item(
            where="figure 7",
            claim="How S_pri and S_acc are distributed.",
            why_not=NO_EXPERIMENT,
        ),
        Item(
            where="figure 8",
            claim="ImageNet pictures.",
            why_not="ImageNet is not at hand",
        ),
        *(
            Item(where=f"figure {number}", claim=what, why_not=PICTURES)
            for number, what in (
                (9, "Originals, batch 1."),
                (10, "Reconstructed, no policy, batch 1."),
                (11, "Transformed, batch 1."),
                (12, "Reconstructed, with a policy, batch 1."),
                (13, "Originals, batch 8."),
                (14, "Reconstructed, no policy, batch 8."),
                (15, "Transformed, batch 8."),
                (16, "Reconstructed, with a policy, batch 8."),
            )
        ),
    ),
    EXPERIMENTS,
)
