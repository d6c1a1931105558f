"""SPN's experiments: systems, gradients, and the judges of CAP and of who knows."""

import pytest
import torch
from torch.nn.functional import conv2d

from fedpriv.rng import generator
from fedpriv.simulations.reproduce.papers import spn_codes
from fedpriv.simulations.reproduce.papers.spn_judges import (
    alike,
    best,
    by_region,
    cap_of,
    curves,
    hidden,
    more_bits,
)
from fedpriv.simulations.reproduce.papers.spn_systems import (
    KINDS,
    conv_matrix,
    guaranteed,
    measured,
    obeyed,
)


def test_a_convolution_is_a_matrix():
    draw = generator(0, "convolution")
    sent, x = torch.randn(4, 1, 6, 6, generator=draw), torch.rand(1, 1, 6, 6, generator=draw)
    weight = torch.zeros(4, 1, 3, 3, requires_grad=True)
    loss = (conv2d(x, weight, padding=1)[0] * sent[:, 0]).sum()
    (expected,) = torch.autograd.grad(loss, weight)
    assert (conv_matrix(sent) @ x.flatten()).tolist() == pytest.approx(
        expected.flatten().tolist(), abs=1e-5
    )


def test_the_bound_holds_and_is_no_guarantee_beyond():
    rows = [
        {**measured(kind, make, seed), "seed": seed}
        for kind, make in KINDS.items()
        for seed in (1,)
    ]
    assert obeyed(rows).verdict == "reproduced"
    assert guaranteed(rows).verdict == "refuted"
    assert obeyed([{**rows[0], "broken": 1}]).verdict == "refuted"


def cap_rows(spn_distance, spn_informed):
    """Three seeds of two values each; the informed attack is nearer."""
    rows = []
    for seed in (1, 2, 3):
        for name in ("none", "noise", "ppdl-5", "ppdl-30", "dp", "spn"):
            for value in (0.1, 0.5):
                for attack in ("dlg", "aware"):
                    far = 0.5 if name != "spn" else spn_distance
                    near = far if name != "spn" else spn_informed
                    found = (far if attack == "dlg" else near) + 0.001 * seed * (name == "spn")
                    columns = ("relative-error", "membership", "tracing")
                    rows.append(
                        {"seed": seed, "defence": name, "batch": 8, "relative-error-blind": 0.45}
                        | ({} if name == "none" else {"value": value})  # as in a table read back
                        | {"attack": attack, "accuracy": 0.4, **dict.fromkeys(columns, found)}
                    )
    return rows


def test_cap_is_the_mean_of_accuracy_times_distance():
    rows = cap_rows(0.9, 0.2)
    of_dlg = cap_of(rows, "spn", 8, "relative-error", ("dlg",))
    assert of_dlg[1] == pytest.approx(0.4 * 0.901)
    assert cap_of(rows, "spn", 8, "relative-error")[1] == pytest.approx(0.4 * 0.201)
    assert best(8, ("dlg",))(rows).verdict == "reproduced"
    assert best(8)(rows).verdict == "refuted"


def test_a_cap_of_an_attack_that_fails_without_a_defence_says_so():
    rows = cap_rows(0.9, 0.2)  # without a defence 0.5, a blind guess 0.45
    assert "compares failed attacks" in best(8, ("dlg",))(rows).result
    works = [{**row, "relative-error-blind": 0.6} for row in rows]
    assert "errs 0.50, a blind guess 0.60" in best(8, ("dlg",))(works).result
    assert "failed" not in best(8, ("dlg",))(works).result


@pytest.mark.parametrize(("seen", "verdict"), [(17.0, "refuted"), (5.0, "reproduced")])
def test_who_knows_is_compared_with_a_blind_guess(seen, verdict):
    rows = [
        {"seed": seed, "defence": defence, "attack": attack, "batch": 4, "label-overlap": 1.0}
        | {"psnr": seen + 0.1 * seed, "psnr-blind": 11.0}
        for seed in (1, 2, 3)
        for defence, attack in (("spn", "spn-aware"), ("spn", "dlg"), ("none", "dlg"))
    ]
    assert hidden(4)(rows).verdict == verdict


def test_the_bounds_of_codes_hold_and_one_that_is_too_small_is_caught(monkeypatch):
    outputs, codes = spn_codes.head(torch.Generator().manual_seed(1))
    found = spn_codes.measured(outputs, codes)
    assert all(
        found[f"left-{name}"] <= found[f"right-{name}"] + 1e-9 for name in ("20", "21", "22")
    )
    perfect = [code.expand(3, -1) for code in codes]
    found = spn_codes.measured(perfect, codes)
    assert found["loss"] == 0 and found["left-20"] == 0 and found["left-21"] == 0
    assert spn_codes.apart(codes[:1], -codes[:1]) == spn_codes.BITS
    small = [1e-3 * v for v in perfect]  # the same codes for another loss
    assert spn_codes.measured(small, codes)["left-22"] == found["left-22"]
    assert spn_codes.measured(small, codes)["loss"] > 100
    broken = {"n": 9, "broken-20": 0, "broken-21": 1, "broken-22": 0}
    assert spn_codes.bounded([broken]).verdict == "refuted"
    monkeypatch.setattr(spn_codes, "polarization_loss", lambda v, t: 0 * v.sum(-1))
    assert spn_codes.measured(outputs, codes)["left-20"] > 0  # without a loss nothing is bounded


def swept(defence, value, column, figures, attack="dlg", **more):
    """A row for each of three seeds, which differ a little."""
    return [
        {"seed": seed, "defence": defence, "value": value, "batch": 8, "attack": attack, **more}
        | {column: figures + 0.001 * seed, "accuracy-se": 0.01, "majority": 0.1}
        for seed in (1, 2, 3)
    ]


@pytest.mark.parametrize(("spn", "verdict"), [(0.4, "reproduced"), (0.2, "refuted")])
def test_curves_compare_accuracy_where_noise_exceeds_the_gradient(spn, verdict):
    rows = swept("none", "", "accuracy", 0.41)
    rows += swept("spn", 0.5, "accuracy", spn, m=0.1) + swept("spn", 0.1, "accuracy", 0.9, m=2.0)
    for name in ("noise", "ppdl-5", "ppdl-30"):
        rows += swept(name, 0.5, "accuracy", 0.3, m=0.2)
        rows += swept(name, 0.01, "accuracy", 0.8, m=1.0)  # little noise: does not count
    found = curves(8)(rows)
    assert found.verdict == verdict and f"spn {spn + 0.002:.1%}" in found.result


@pytest.mark.parametrize(
    ("green", "red", "verdict"),
    [
        (0.9, 0.2, "reproduced"),
        (0.3, 0.2, "refuted"),  # something is seen behind strong noise
        (0.9, 0.8, "refuted"),  # nothing is seen behind weak noise
        (0.5, 0.2, "undecided"),
    ],
)
def test_regions_compare_dlg_with_a_blind_guess(green, red, verdict):
    blind = {"relative-error-blind": 0.502}
    rows = swept("noise", 0.5, "relative-error", green, m=0.2, **blind)
    rows += swept("noise", 1e-4, "relative-error", red, m=2.0, **blind)
    rows += swept("noise", 0.01, "relative-error", 0.1, m=0.8, **blind)  # white: does not count
    rows += swept("none", "", "relative-error", 0.9, m="inf", **blind)
    rows += swept("noise", 0.5, "relative-error", 0.1, "noise-aware", m=0.2, knows="noise", **blind)
    found = by_region(8)(rows)
    assert found.verdict == verdict and "who knows the defence errs 0.10" in found.result


@pytest.mark.parametrize(
    ("laplace", "verdict"), [(0.82, "reproduced"), (0.95, "refuted"), (0.895, "undecided")]
)
def test_kinds_of_noise_are_alike_within_a_bound(laplace, verdict):
    rows = swept("gaussian", 0.1, "relative-error", 0.8)
    rows += swept("laplace", 0.1, "relative-error", laplace)
    for row in rows:  # a spread that only the pair near the bound feels
        row["relative-error"] += 0.01 * row["seed"] * (row["defence"] == "laplace")
    assert alike(rows).verdict == verdict


@pytest.mark.parametrize(("many", "verdict"), [(0.9, "reproduced"), (0.5, "refuted")])
def test_more_bits_hide_more_or_not(many, verdict):
    rows = []
    for attack in ("dlg", "spn-aware"):
        rows += swept("spn", 32, "relative-error", 0.7, attack)
        rows += swept("spn", 128, "relative-error", many, attack)
    for row in rows:
        row["relative-error"] += 0.001 * (row["seed"] % 2) * (row["value"] == 128)
    assert more_bits(rows).verdict == verdict
