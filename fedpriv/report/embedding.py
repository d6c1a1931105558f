"""Codes in two dimensions by t-SNE, a panel a run and a colour a label (as RAN and ARL draw them).

What is near in the picture was near among the codes. Distances between groups, and their sizes,
mean nothing.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from fedpriv.errors import BadInput, BadOption
from fedpriv.files import whole

LEAST = 10  # codes below which there is nothing to arrange
ACROSS = 3  # panels side by side


def embedded(codes: np.ndarray, seed: int = 0) -> np.ndarray:
    """(N, K) codes as (N, 2) places; the same for the same seed."""
    try:
        from sklearn.manifold import TSNE
    except ImportError as error:
        raise BadOption(
            "t-SNE needs scikit-learn, which is not installed: pip install 'scikit-learn>=1.6'."
        ) from error
    if len(codes) < LEAST:
        raise BadInput(f"t-SNE needs {LEAST} codes or more, got {len(codes)}.")
    near = min(30.0, (len(codes) - 1) / 3)
    found = TSNE(perplexity=near, init="pca", random_state=seed).fit_transform(codes)
    return np.asarray(found)


def draw(panels: Mapping[str, tuple[np.ndarray, np.ndarray]], path: Path, seed: int = 0) -> None:
    """Codes and their labels by the name of each panel, as PNG."""
    from matplotlib import colormaps
    from matplotlib.figure import Figure

    places = {name: (embedded(codes, seed), labels) for name, (codes, labels) in panels.items()}
    classes = sorted({int(label) for _, labels in places.values() for label in labels})
    palette = colormaps["tab10" if len(classes) <= 10 else "tab20"]
    columns = min(ACROSS, len(places))
    lines = -(-len(places) // columns)
    figure = Figure(figsize=(4 * columns, 3.9 * lines + 0.5), layout="constrained")
    axes: Any = figure.subplots(lines, columns, squeeze=False)
    for axis in axes.flat:
        axis.set_axis_off()
    marks = {}
    for axis, (name, (at, labels)) in zip(axes.flat, places.items(), strict=False):
        axis.set_axis_on()
        axis.set_title(name, fontsize=10)
        axis.set_xticks([])
        axis.set_yticks([])
        for number, label in enumerate(classes):
            own = at[labels == label]
            colour = palette(number % palette.N)
            marks[str(label)] = axis.scatter(own[:, 0], own[:, 1], s=9, color=colour, lw=0)
    figure.legend(
        marks.values(), marks.keys(), loc="outside lower center", ncols=10, markerscale=2,
        title="label", frameon=False,
    )  # fmt: skip
    with whole(path) as beside:
        figure.savefig(beside, format="png", dpi=120)
