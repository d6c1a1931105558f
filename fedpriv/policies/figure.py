"""What a search has seen: S_pri against S_acc, each transformation alone, and GradSim's curves."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fedpriv.files import whole
from fedpriv.policies.policy_set import PolicySet
from fedpriv.policies.transforms import TRANSFORMATIONS


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
