"""S_pri against S_acc of every candidate (ATS figure 7)."""

from pathlib import Path

from fedpriv.files import whole
from fedpriv.policies.policy_set import PolicySet


def draw(found: PolicySet, path: Path) -> None:
    """Write the figure; a candidate that left the race is drawn at its estimated S_pri."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 4), layout="constrained")
    axes = figure.add_subplot()
    for kept, style, label in (
        (False, {"s": 9, "alpha": 0.4}, "candidates"),
        (True, {"s": 28, "marker": "*"}, "kept"),
    ):
        rows = [row for row in found.candidates if row.kept == kept]
        x, y = [row.accuracy for row in rows], [row.privacy for row in rows]
        axes.scatter(x, y, label=label, **style)
    axes.axvline(found.threshold, linestyle="--", linewidth=1, label="threshold of S_acc")
    for row in found.candidates:
        if row.policy in found.policies[:3]:
            axes.annotate(row.policy, (row.accuracy, row.privacy), fontsize=7)
    axes.set_xlabel("S_acc (higher: more accurate)")
    axes.set_ylabel("S_pri (lower: more private)")
    axes.set_title(f"{len(found.candidates)} policies, {found.model} on {found.data}")
    axes.legend(fontsize=8)
    with whole(path) as beside:
        figure.savefig(beside, format="png", dpi=150)
