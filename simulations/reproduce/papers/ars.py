"""ARS: noisy codes instead of updates (Chen et al. 2022)."""

from fedpriv.simulations.reproduce.experiment import Experiment, Item, Paper

NO_EXPERIMENT = "no experiment of three seeds yet"
DRAWING = "a drawing; it has nothing to measure"
PICTURES = "single pictures; no number to test"
EXPERIMENTS: tuple[Experiment, ...] = ()

PAPER = Paper(
    "ARS",
    "Chen et al. 2022, Adversarial representation sharing.",
    (
        *(
            Item(where=f"figure {number}", claim=what, why_not=DRAWING)
            for number, what in ((1, "Sharing codes."), (2, "Inversion."), (3, "Noise on codes."))
        ),
        Item(
            where="figure 4, MNIST",
            claim="With ε the error of reconstructions grows more than with uniform noise, and "
            "accuracy falls slightly.",
            figures="accuracy 97.2 to 89.3 %",
            why_not=NO_EXPERIMENT,
        ),
        Item(
            where="figure 4, CelebA",
            claim="The same on faces.",
            figures="accuracy 93.7 to 84.3 %",
            why_not="CelebA is not at hand",
        ),
        Item(where="figure 5", claim="Digits.", why_not=PICTURES),
        Item(where="figure 6", claim="Faces.", why_not="CelebA is not at hand"),
        Item(
            where="table 1",
            claim="ARS is as accurate as secure computation and DP-FL, for N·K·h bytes.",
            figures="92.8 % (ε = 50), 93.4 %, at most 92 %",
            why_not=NO_EXPERIMENT,
        ),
        Item(
            where="table 2",
            claim="Reconstructions of faces are worse than with two other mechanisms.",
            figures="PSNR 9.9 (ε = 50) against 15.4 and 12.3 dB",
            why_not="CelebA and the mechanism SCA are not at hand",
        ),
        Item(
            where="table 3",
            claim="More parties with columns learn more, and noise brings reconstruction below "
            "50 %.",
            figures="K = 1, 2, 3: 78.9, 82.2, 84.6 %; reconstruction at ε = 50: 32.6, 46.2, 36.1 %",
            why_not=NO_EXPERIMENT,
        ),
        Item(
            where="figure 7",
            claim="Noise against an attribute makes its classifier say the target class.",
            why_not=NO_EXPERIMENT,
        ),
        Item(
            where="table 4",
            claim="The larger the decoder's weight and ε, the worse reconstructions.",
            figures="ε = 50: 8.8, 12.0, 14.5, 19.1 dB",
            why_not=NO_EXPERIMENT,
        ),
        Item(
            where="figure 8",
            claim="Classifiers of private attributes fall to 50 %.",
            why_not=NO_EXPERIMENT,
        ),
        Item(
            where="table 5",
            claim="One pool serves several tasks, above 73 % each.",
            why_not="CelebA is not at hand",
        ),
        Item(
            where="table 6",
            claim="The less of the mask an attacker has, the worse its reconstruction.",
            figures="overlap 0, 25, 50, 75, 100 %: 0.119, 0.101, 0.082, 0.048, 0.021 (ε = 50)",
            why_not=NO_EXPERIMENT,
        ),
        Item(
            where="equations 16-17",
            claim="A guessed mask is unlikely to overlap by much.",
            why_not=NO_EXPERIMENT,
        ),
    ),
    EXPERIMENTS,
)
