"""Codes beside updates, on made-up rows: the judge can say either."""

from pathlib import Path

import pytest

from fedpriv.simulations.reproduce.carrying import Place
from fedpriv.simulations.reproduce.experiment import Item
from fedpriv.simulations.reproduce.page import judged
from fedpriv.simulations.reproduce.papers.sharing import fewer_leaks
from fedpriv.tables import write_table


def rows_of(decibels: float, points: float) -> list[dict[str, object]]:
    """Codes with 16 dB and 97 %, and updates of two mechanisms; one of them always leaks more."""
    rows: list[dict[str, object]] = []
    for seed in (1, 2, 3):
        rows.append({"seed": seed, "run": "ran", "attack": "even-decoder", "accuracy": 0.97})
        rows[-1] |= {"psnr": 16.0, "psnr-blind": 12.0}
        for defence, seen, learned in (("none", 30.0, 0.97), ("noise", decibels, points)):
            for batch, less in ((1, 0.0), (8, 20.0)):  # a batch of eight never leaks as much
                rows.append({"seed": seed, "run": "", "attack": "quick", "accuracy": learned})
                rows[-1] |= {"psnr": seen - less + 0.1 * seed, "batch": batch}
                rows[-1] |= {"defence": defence, "value": 0.1 if defence == "noise" else ""}
    return rows


@pytest.mark.parametrize(
    ("decibels", "points", "verdict"),
    [
        (20.0, 0.97, "reproduced"),  # leaks more
        (12.0, 0.60, "reproduced"),  # leaks less and learns far less
        (12.0, 0.97, "refuted"),
        (15.8, 0.97, "undecided"),
    ],
)
def test_codes_leak_least_unless_an_update_is_as_accurate_and_hides_more(decibels, points, verdict):
    rows = rows_of(decibels, points)
    assert fewer_leaks("ran", 1)(rows).verdict == verdict
    assert fewer_leaks("ran", 8)(rows).verdict == "refuted"  # that of no defence hides more


def test_a_judge_of_two_experiments_waits_for_both(tmp_path: Path):
    item = Item(where="", claim="", experiment="updates", beside="codes", judge=fewer_leaks("a", 1))
    place = Place(tmp_path, tmp_path)
    for name, there in (("updates", 0), ("codes", 2)):
        write_table(place.table(name, "small"), [{"seed": 1, "run": name}])
        assert len(judged(item, tmp_path / "measured")) == there
