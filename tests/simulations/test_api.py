"""The Python API: the same run as the command's, with tables."""

import pytest

import fedpriv
from fedpriv.errors import BadFolder, BadOption, BadScenario
from fedpriv.simulations.api import scenario_of


def test_a_run_from_python(tiny, tmp_path):
    out = tmp_path / "run<1>"
    result = fedpriv.run(tiny, settings={"federation.rounds": 2}, out=out, quiet=True)
    assert result.rounds["round"].tolist() == [1, 2]
    assert result.scores.empty
    assert result.report.exists()
    assert result.verdict.light == "grey"
    text = result._repr_html_()
    assert "Undecided" in text and "run&lt;1&gt;" in text and "run<1>" not in text
    assert fedpriv.load(out).rounds.equals(result.rounds)


def test_settings_in_both_spellings(tiny):
    typed = scenario_of(tiny, ["training.lr=0.5", "federation.clients=3"])
    given = scenario_of(tiny, {"training.lr": 0.5, "federation": {"clients": 3}})
    assert typed == given
    assert (typed.training.lr, typed.federation.clients, typed.federation.rounds) == (0.5, 3, 3)


def test_wrong_input_is_named(tiny, tmp_path):
    with pytest.raises(BadScenario, match="quickstrat"):
        fedpriv.run("quickstrat")
    with pytest.raises(BadOption, match="profile"):
        fedpriv.run(tiny, profile="small")
    with pytest.raises(BadFolder, match="nothing"):
        fedpriv.load(tmp_path / "nothing")
    with pytest.raises(AttributeError, match="walk"):
        fedpriv.walk  # noqa: B018
