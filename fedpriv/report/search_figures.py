"""Pictures of a policy search: scores, single transformations, GradSim's curves, checks."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fedpriv.files import whole
from fedpriv.policies.policy_set import PolicySet
from fedpriv.policies.transforms import TRANSFORMATIONS
from fedpriv.tables import Row


def draw(found: PolicySet, path: Path) -> None:
    """Write the figure; a candidate that left the race is drawn at its estimated S_pri."""
    from matplotlib.figure import Figure

    single = all(row.policy.isdigit() for row in found.candidates)
    figure = Figure(figsize=(9, 4) if single else (6, 4), layout="constrained")
    axes = figure.add_subplot()
    axes.set_title(f"{len(found.candidates)} policies, {found.model} on {found.data}")
    (_bars if single else _cloud)(found, axes)
    with whole(path) as beside:
        figure.savefig(beside, format="png", dpi=150)


def draw_curves(curves: Mapping[str, Sequence[float]], path: Path) -> None:
    """GradSim from a random start (0) to the transformed image (1), by policy (ATS figure 1)."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 4), layout="constrained")
    axes = figure.add_subplot()
    for name, values in curves.items():
        last = len(values) - 1
        axes.plot([j / last for j in range(len(values))], values, label=name)
    axes.set_xlabel("way from a random start to the transformed image")
    axes.set_ylabel("GradSim (flat: nothing shows the way)")
    axes.legend(fontsize=8)
    with whole(path) as beside:
        figure.savefig(beside, format="png", dpi=150)


def draw_correlation(rows: Sequence[Row], title: str, attack: str, path: Path) -> None:
    """PSNR of an attack's guesses against S_pri, a point a policy (ATS figure 2)."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 4), layout="constrained")
    axes = figure.add_subplot()
    x = [row["s-pri"] for row in rows]
    axes.scatter(x, [row["psnr-trained"] for row in rows], label="against the transformed image")
    axes.scatter(x, [row["psnr"] for row in rows], marker="x", label="against the original")
    axes.set_xlabel("S_pri")
    axes.set_ylabel(f"PSNR of {attack} (dB)")
    axes.set_title(title)
    axes.legend(fontsize=8)
    with whole(path) as beside:
        figure.savefig(beside, format="png", dpi=150)


def draw_layers(rows: Sequence[Row], layers: Sequence[str], attack: str, path: Path) -> None:
    """GradSim of the first and the last two layers while an attack goes on (ATS figure 6)."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 4), layout="constrained")
    shallow, deep = figure.subplots(1, 2, sharey=True)
    for number, policy in enumerate(dict.fromkeys(row["policy"] for row in rows)):
        for axes, both in ((shallow, layers[:2]), (deep, layers[-2:])):
            for layer, style in zip(both, ("-", "--"), strict=False):
                own = [r for r in rows if r["policy"] == policy and r["layer"] == layer]
                axes.plot(
                    [row["evaluation"] for row in own],
                    [row["similarity"] for row in own],
                    label=f"{policy}: {layer}",
                    color=f"C{number}",
                    linestyle=style,
                )
    for axes, title in ((shallow, "shallow layers"), (deep, "deep layers")):
        axes.set_title(title)
        axes.set_xlabel(f"evaluations of {attack}")
        axes.legend(fontsize=6)
    shallow.set_ylabel("GradSim with the observed gradient")
    with whole(path) as beside:
        figure.savefig(beside, format="png", dpi=150)


def _cloud(found: PolicySet, axes: Any) -> None:
    """ATS figure 7."""
    for kept, style, label in (
        (False, {"s": 9, "alpha": 0.4}, "candidates"),
        (True, {"s": 28, "marker": "*"}, "kept"),
    ):
        rows = [row for row in found.candidates if row.kept == kept]
        x, y = [row.accuracy for row in rows], [row.privacy for row in rows]
        axes.scatter(x, y, label=label, **style)
    axes.axvline(found.threshold, linestyle="--", linewidth=1, label="threshold of S_acc")
    for row in found.candidates:
        if row.policy in found.policies[:1]:
            axes.annotate(row.policy, (row.accuracy, row.privacy), fontsize=7)
    axes.set_xlabel("S_acc (higher: more accurate)")
    axes.set_ylabel("S_pri (lower: more private)")
    axes.legend(fontsize=8)


def _bars(found: PolicySet, axes: Any) -> None:
    """ATS figure 5."""
    names = [f"{row.policy} {TRANSFORMATIONS[int(row.policy)]}" for row in found.candidates]
    colours = ["tab:red" if row.kept else "tab:gray" for row in found.candidates]
    axes.bar(range(len(names)), [row.privacy for row in found.candidates], color=colours)
    axes.set_xticks(range(len(names)), names, rotation=90, fontsize=6)
    axes.set_ylabel("S_pri (lower: more private)")
