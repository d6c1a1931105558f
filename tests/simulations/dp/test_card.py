"""The DP card: of a scenario, of a run, on its page, and beside what canaries found."""

import json

import pytest
from rich.console import Console

from fedpriv.report.about_epsilon import epsilon_section
from fedpriv.report.reading import read_material
from fedpriv.runfolder import RunFolder
from fedpriv.scenario import from_tables
from fedpriv.simulations.dp.accounting import Account, exact
from fedpriv.simulations.dp.accounts import account_of, planned, span_of, turns_in
from fedpriv.simulations.dp.card import card_of, written_card
from fedpriv.simulations.federation.progress import PlainLines
from fedpriv.simulations.federation.run import simulate

KEYS = {
    "unit", "neighbours", "epsilon", "delta", "mechanism", "accountant", "trust", "outside",
    "computed", "empirical", "beside",
}  # fmt: skip
DP = {"name": "dp", "noise-multiplier": 1.0, "samples": 128}


@pytest.fixture
def of(tiny):
    def make(plugin=None, **federation):
        tables = tiny.plain() | {"plugins": [plugin] if plugin else []}
        tables["federation"] = tables["federation"] | federation
        return from_tables(tables)

    return make


def test_a_scenario_without_noise_has_no_card(of):
    assert card_of(of()) is None
    assert card_of(of({"name": "dp", "noise-multiplier": 0.0})) is None
    assert card_of(of({"name": "pruning", "fraction": 0.1})) is None


def test_the_card_of_dp_has_the_epsilon_of_its_settings(of):
    scenario = of(DP)
    card = card_of(scenario)
    assert set(card) == KEYS and json.loads(json.dumps(card)) == card
    assert card["unit"].startswith("one sample") and "added or removed" in card["neighbours"]
    training, turns = scenario.training, scenario.federation.rounds
    account = Account(
        noise=1.0,
        rate=min(1.0, training.batch_size / 128),
        steps=training.steps_for(128),
        rounds=turns,
        sampling="poisson",
    )
    assert (card["computed"]["low"], card["computed"]["high"]) == pytest.approx(exact(account))
    assert card["epsilon"] is None and card["empirical"] is None
    assert card_of(of({"name": "dp", "epsilon": 8.0}))["epsilon"] == 8.0
    assert any("declares public" in line for line in card["outside"])


def test_a_noised_number_of_samples_widens_the_span(of):
    noised = of({"name": "dp", "noise-multiplier": 1.0})
    low, high = span_of(noised, planned(noised, 1))
    inner = span_of(of(DP), planned(of(DP), 1))
    assert low < min(inner) and high > max(inner)
    assert "a noised number of samples" in card_of(noised)["accountant"]


def test_a_client_that_was_away_lowers_the_span(of):
    """Who answered is not known: at least one client did as much, and none more than all."""
    scenario = of(DP, clients=4, rounds=6)
    full = [{"round": n, "clients": 4} for n in range(1, 7)]
    some = [{**line, "clients": 2} for line in full]
    everybody, halves = turns_in(scenario, full), turns_in(scenario, some)
    assert everybody == planned(scenario, 6) and (halves.trained, halves.most) == (3, everybody)
    low, high = span_of(scenario, halves)
    assert low == exact(account_of(scenario, planned(scenario, 3), largest=True))[0]
    assert low < span_of(scenario, everybody)[0] and high == span_of(scenario, everybody)[1]


def test_user_level_dp_is_about_a_client_and_both_levels_have_a_card_each(of):
    one = card_of(of(None, strategy="user-dp-server"))
    assert one["unit"].startswith("one client") and "published models only" in one["trust"]
    assert one["beside"] == []
    both = card_of(of(DP, strategy="user-dp-client"))
    assert both["unit"].startswith("one sample")
    assert [card["unit"] for card in both["beside"]] == [one["unit"]]


@pytest.mark.parametrize("level", ["sample", "client"])
def test_the_card_of_a_run_has_what_it_claims_and_is_on_its_page(of, tmp_path, level):
    scenario = of(DP) if level == "sample" else of(None, strategy="user-dp-server")
    folder = simulate(scenario, RunFolder(tmp_path / "R"), PlainLines(Console(quiet=True)))
    last = folder.rounds()[-1]
    card = written_card(folder)
    assert card["epsilon"] == last["train-epsilon" if level == "sample" else "user-epsilon"]
    assert card["epsilon"] >= card["computed"]["low"] * (1 - 1e-3)
    assert "a public seed" in card["trust"]
    (run,) = read_material([folder.path]).runs
    section = epsilon_section(run)
    rows = dict(section.tables[0].rows)
    assert rows["ε by canaries"] == "not tried" and f"{card['epsilon']:.4g}" in rows["ε claimed"]
