"""The terminal's table of scores."""

from fedpriv.simulations.cli.tables import figures


def test_hits_and_misses_are_shown_as_a_share_and_values_by_their_median():
    hits = [{"member-hit": float(i < 11)} for i in range(500)]
    assert figures("member-hit", hits) == ["2.2%"]  # their median is 0
    ranks = [{"member-rank": value} for value in (0.2, 0.5, 0.9)]
    assert figures("member-rank", ranks)[0].startswith("0.5")
    assert len(figures("psnr", [{"psnr": 12.0}, {"psnr": 30.0}])) == 2
