"""The table of what leaked, as the terminal shows it."""

from fedpriv.simulations.cli.tables import figures, scores_table


def test_hits_are_shown_as_a_share_and_other_metrics_by_their_median():
    rows = [{"traced-hit": hit, "psnr": 10.0 + hit} for hit in (0, 0, 0, 1)]
    assert figures("traced-hit", rows)[0] == "0.250"
    assert figures("psnr", rows) == ["10.0 dB", "11.0 dB"]


def test_the_time_of_an_attack_is_the_sum_over_updates():
    rows = [
        {"attack": "dlg", "round": 1, "node": node, "psnr": 10.0, "seconds": 1.5}
        for node in (0, 0, 1)
    ]
    table = scores_table("run", rows)
    assert list(table.columns[-1].cells) == ["3.0"]
