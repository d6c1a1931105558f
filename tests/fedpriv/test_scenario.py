import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedpriv.errors import BadInput, BadScenario
from fedpriv.scenario import Scenario, builtin, from_tables, merged, parsed_setting, read


def test_text_and_toml_read_back_as_the_same_scenario(tmp_path, tiny):
    full = from_tables(
        {
            **tiny.plain(),
            "plugins": [{"name": "pruning", "fraction": 0.05}],
            "attacks": [{"name": "dlg", "rounds": [1, 2], "restarts": 3}],
            "malicious": {"name": "imprint", "from-round": 2, "bins": 8},
            "gate": {"psnr": 20},
            "variants": [{"name": "a", "set": {"training.lr": 0.5}}],
        }
    )
    file = tmp_path / "full.toml"
    file.write_text(full.toml())
    assert Scenario.of({"scenario": full.text()}) == full == read(str(file))


@pytest.mark.parametrize("name", builtin())
def test_every_scenario_that_ships_can_be_read(name):
    scenario = read(name)
    assert scenario.name == name
    assert scenario.summary


@pytest.mark.parametrize(
    ("tables", "words"),
    [
        ({"trainin": {}}, "Did you mean 'training'"),
        ({"training": {"lrr": 1}}, "Did you mean 'lr'"),
        ({"training": {"lr": "fast"}}, "'lr' must be a number, got 'fast'"),
        ({"training": {"lr": -1}}, "training.lr must be above 0"),
        ({"training": {"batch-size": 0}}, "batch-size must be between 1 and 1000000, got 0"),
        ({"training": {"optimiser": "sdg"}}, "one of 'sgd', 'adam'"),
        ({"training": 3}, "[training] must be a table"),
        ({"federation": {"clients": 2, "min-clients": 3}}, "only 2 clients"),
        ({"federation": {"fraction": 0}}, "federation.fraction must be above 0"),
        ({"data": {"partition": "idd"}}, "'iid'"),
        ({"plugins": {"name": "dp"}}, "[[plugins]]"),
        ({"plugins": [{}]}, "needs a name"),
        ({"attacks": [{"name": "dlg", "rounds": "sometimes"}]}, "'every N'"),
        ({"gate": {"psnr": "low"}}, "must be a finite number"),
        ({"seed": "seven"}, "'seed' must be a whole number"),
        ({"name": 3}, "'name' must be text"),
    ],
)
def test_what_is_wrong_is_named(tables, words):
    with pytest.raises(BadScenario) as caught:
        from_tables(tables)
    assert words in str(caught.value)


def test_settings_override_and_are_typed():
    scenario = read("quickstart", ["training.lr=0.5", "model.name=dlnet", "data.partition=shards"])
    assert (scenario.training.lr, scenario.model.name) == (0.5, "dlnet")
    assert scenario.data.partition == "shards"


@pytest.mark.parametrize("setting", ["lr", "=3", "training.=3", ".x=1"])
def test_a_setting_without_key_or_value_is_refused(setting):
    with pytest.raises(BadScenario, match="section.key=value"):
        parsed_setting(setting)


def test_unknown_names_say_what_there_is():
    with pytest.raises(BadScenario, match="Did you mean 'quickstart'"):
        read("quickstrat")
    with pytest.raises(BadScenario, match="no profile 'tiny'"):
        read("quickstart", profile="tiny")
    with pytest.raises(BadScenario, match="cannot be read"):
        read("nowhere.toml")


def test_a_scenario_extends_another(tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text('extends = "quickstart"\nname = "mine"\n[training]\nlr = 0.3\n')
    mine, base = read(str(file)), read("quickstart")
    assert mine.training.lr == 0.3
    assert mine.federation == base.federation


def test_profiles_lie_over_the_scenario(tmp_path):
    file = tmp_path / "p.toml"
    file.write_text('name = "p"\n[profiles.small.federation]\nrounds = 2\n')
    assert read(str(file), profile="small").federation.rounds == 2
    assert read(str(file)).federation.rounds == 10


def test_another_model_does_not_inherit_options():
    below = {"model": {"name": "dlnet", "activation": "tanh"}}
    assert merged(below, {"model": {"name": "lenet"}}) == {"model": {"name": "lenet"}}
    assert merged(below, {"model": {"init": "uniform"}})["model"]["activation"] == "tanh"


def test_the_learning_rate_falls_after_its_rounds():
    training = from_tables(
        {"training": {"lr": 1.0, "schedule-rounds": [2, 4], "schedule-factor": 0.5}}
    ).training
    assert [training.lr_at(r) for r in range(1, 6)] == [1, 1, 0.5, 0.5, 0.25]


def test_attacks_choose_their_rounds():
    def rounds(when):
        attack = from_tables({"attacks": [{"name": "dlg", "rounds": when}]}).attacks[0]
        return [r for r in range(1, 7) if attack.wants(r, 6)]

    assert rounds("all") == [1, 2, 3, 4, 5, 6]
    assert rounds("first") == [1]
    assert rounds("last") == [6]
    assert rounds("every 2") == [2, 4, 6]
    assert rounds([1, 5]) == [1, 5]


def test_a_scenario_of_an_earlier_version_opens_and_is_written_in_todays_words():
    old = from_tables({"audit": True})
    assert old == from_tables({"keep-truth": True}) and old.keeps_truth
    assert "keep-truth = true" in old.toml() and "audit" not in old.toml()
    with pytest.raises(BadScenario, match="keep-truth"):
        from_tables({"keep-truth": "yes"})


def test_the_truth_is_kept_where_attacks_are_judged_or_where_it_is_asked_for():
    attacks = [{"name": "dlg"}]
    kept = [{}, {"attacks": attacks}, {"attacks": attacks, "keep-truth": False}]
    assert [from_tables(tables).keeps_truth for tables in kept] == [False, True, False]


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["name", "lr", "rounds", "clients", "options", "set", "x"])
            | st.text(string.ascii_letters, max_size=5),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)
sections = st.sampled_from(
    ["name", "seed", "keep-truth", "summary", "data", "model", "training", "federation", "strategy",
     "plugins", "attacks", "malicious", "gate", "variants", "defences", "sweep", "nonsense"]
)  # fmt: skip


@given(st.dictionaries(sections, values, max_size=4))
def test_nonsense_is_an_error_or_a_scenario_never_a_traceback(tables):
    try:
        scenario = from_tables(tables)
    except BadInput as error:
        assert str(error)
    else:
        assert isinstance(scenario, Scenario)


@given(st.text(max_size=60))
def test_no_file_breaks_the_reader(tmp_path_factory, text):
    file = tmp_path_factory.mktemp("fuzz") / "f.toml"
    file.write_bytes(text.encode("utf-8", "surrogatepass"))
    try:
        read(str(file))
    except BadInput as error:
        assert str(error)


@given(st.text(max_size=30))
def test_no_setting_breaks_the_reader(setting):
    try:
        read("quickstart", [setting])
    except BadInput as error:
        assert str(error)
