"""ARL: task-oriented codes that resist inversion (Xiao et al. 2020)."""

from fedpriv.simulations.reproduce.experiment import Experiment, Item, Paper

NO_EXPERIMENT = "no experiment of three seeds yet"
PICTURES = "single pictures; no number to test"
EXPERIMENTS: tuple[Experiment, ...] = ()


def table1(rows: str, claim: str, figures: str, why_not: str = NO_EXPERIMENT) -> Item:
    return Item(where=f"table 1, rows {rows}", claim=claim, figures=figures, why_not=why_not)


PAPER = Paper(
    "ARL",
    "Xiao et al. 2020, Adversarial learning of privacy-preserving and task-oriented "
    "representations.",
    (
        Item(where="figure 1", claim="The idea.", why_not=PICTURES),
        Item(where="figure 2", claim="The method.", why_not="a drawing; nothing to measure"),
        table1(
            "1-2",
            "λ1 > 0 lowers face and feature similarity for little MCC.",
            "MCC 0.641 and 0.612, face similarity 0.551 and 0.515, feature similarity 0.835 and "
            "0.574",
        ),
        table1(
            "3-4",
            "The same against a decoder with a GAN loss.",
            "face similarity 0.585 and 0.513",
        ),
        table1(
            "5-6",
            "The same against a decoder with more data.",
            "face similarity 0.594 and 0.541",
            "MS-Celeb-1M is not at hand",
        ),
        table1(
            "7-8",
            "The same with more data for encoder and decoder.",
            "face similarity 0.579 and 0.550",
            "MS-Celeb-1M is not at hand",
        ),
        table1(
            "9-10",
            "With one task there is less to hide, and λ1 > 0 still helps.",
            "face similarity 0.460 and 0.424",
        ),
        Item(where="figure 3", claim="Reconstructions.", why_not=PICTURES),
        Item(
            where="figure 4",
            claim="t-SNE: codes no longer separate what is not the task.",
            why_not=NO_EXPERIMENT,
        ),
        Item(where="figure 5", claim="Reconstructions by λ2.", why_not=PICTURES),
        Item(
            where="table 2",
            claim="A larger λ2 hides more and costs MCC.",
            figures="λ2 = 0, 5, 10: MCC 0.631, 0.255, 0.000; face similarity 0.631, 0.502, 0.294",
            why_not="the paper's pretrained perceptual network is not at hand",
        ),
        Item(
            where="table 3",
            claim="At every layer the game lowers face similarity and LDA score; most at the "
            "first.",
            figures="conv1: 0.98 to 0.36, MCC 0.64 and 0.65",
            why_not=NO_EXPERIMENT,
        ),
        Item(where="figure 6", claim="The decoder.", why_not="a drawing; it is `arl-resnet`"),
        Item(where="figure 7", claim="Reconstructions by λ2.", why_not=PICTURES),
    ),
    EXPERIMENTS,
)
