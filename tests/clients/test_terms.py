"""A client's terms: no scenario calls functions, drops the owner's plugins or gets the truth."""

import sys

import pytest
from messages import context_of, message_of

from fedpriv.clients.protection.reasons import PRIVATE
from fedpriv.clients.protection.screening import on_own_terms
from fedpriv.clients.protection.template import terms_template
from fedpriv.clients.protection.terms import Terms, keys, terms_in
from fedpriv.errors import BadScenario
from fedpriv.scenario import Scenario, from_tables, read
from fedpriv.scenario.binding import kebab
from fedpriv.scenario.sections import Spec


@pytest.fixture(autouse=True)
def no_ray(monkeypatch):
    """A client in a process with Ray counts as simulated; an earlier test may have started Ray."""
    monkeypatch.delitem(sys.modules, "ray", raising=False)


def owner_says(folder, text=""):
    (folder / "terms.toml").write_text('tasks = ["mnist-5k"]\n' + text)


def followed(tables, folder, **own):
    """The scenario and node configuration a client's handler sees, or its refusal."""
    seen = {}
    scenario = from_tables(tables)
    context = context_of(scenario, state_folder=str(folder), **{"secret_seed": None, **own})

    def handler(message, context):
        seen.update(scenario=Scenario.of(context.run_config), own=dict(context.node_config))
        return message

    if not (folder / "terms.toml").exists():
        owner_says(folder)
    reply = on_own_terms(message_of(), context, handler)
    assert context.run_config == {"scenario": scenario.text()}
    assert "truth-folder" not in context.node_config
    return (reply.error.reason if reply.has_error() else None), seen


@pytest.mark.parametrize(
    "tables",
    [
        {"plugins": [{"name": "os:system", "command": "true"}]},
        {"model": {"name": "os:system"}},
        {"data": {"name": "os:system"}},
    ],
)
def test_a_server_cannot_have_functions_called(tables, tmp_path):
    refusal, seen = followed(tables, tmp_path)
    assert "'os:system'" in refusal and not seen


def test_a_simulation_may_name_import_paths(tmp_path):
    refusal, seen = followed({"model": {"name": "my:Net"}}, tmp_path, secret_seed=1)
    assert refusal is None and seen["scenario"].model.name == "my:Net"


def test_the_owner_can_allow_an_import(tmp_path):
    owner_says(tmp_path, 'imports = ["my:Net"]\n')
    assert followed({"model": {"name": "my:Net"}}, tmp_path)[0] is None


def test_the_owners_plugins_come_first_with_the_owners_options(tmp_path):
    more = 'extra-plugins = ["noise"]\n[[plugins]]\nname = "guard"\naction = "refuse"\n'
    owner_says(tmp_path, more)
    plugins = [{"name": "noise", "scale": 0.1}, {"name": "guard", "action": "warn"}]
    _, seen = followed({"plugins": plugins}, tmp_path)
    assert [spec.name for spec in seen["scenario"].plugins] == ["guard", "noise"]
    assert seen["scenario"].plugins[0].options == {"action": "refuse"}


def test_data_are_read_only_where_the_owner_put_them(tmp_path):
    _, seen = followed({"data": {"root": "/etc"}}, tmp_path)
    assert seen["scenario"].data.root == ""


def test_the_truth_is_kept_only_if_the_owner_says_so(tmp_path):
    assert "truth-folder" not in followed({"keep-truth": True}, tmp_path)[1]["own"]
    owner_says(tmp_path, "keep-truth = true\n")
    _, seen = followed({"keep-truth": True}, tmp_path)
    assert seen["own"]["truth-folder"] == str(tmp_path / "truth")


@pytest.mark.parametrize(
    "text",
    [
        "plugin = 1\n",
        "imports = 3\n",
        "not toml",
        "[[plugins]]\nx = 1\n",
        "batch-size = [9, 8]\n",
        "samples = 3\n",
        "local-steps = 0\n",
        "evaluation-noise = nan\n",
        "evaluation-noise = inf\n",
        'messages = ["trian"]\n',
    ],
)
def test_terms_that_cannot_be_used_are_named_to_the_owner_alone(text, tmp_path, caplog):
    (tmp_path / "terms.toml").write_text(text)
    with pytest.raises(BadScenario, match=r"terms\.toml"):
        terms_in(tmp_path)
    refusal, seen = followed({}, tmp_path)
    assert refusal == PRIVATE and not seen
    assert str(tmp_path / "terms.toml") in caplog.text


def test_the_template_says_every_key_and_lets_quickstart_train(tmp_path):
    (tmp_path / "terms.toml").write_text(terms_template())
    found = terms_in(tmp_path)
    assert found.tasks == (Spec("mnist-5k"),)
    assert [spec.name for spec in found.plugins] == ["guard"]
    own = ("tasks", "plugins", "extra_plugins")
    assert all(getattr(found, one.name) == one.default for one in keys() if one.name not in own)
    assert all(f"\n{kebab(one.name)} = " in terms_template() for one in keys()[:-1])
    assert followed(read("quickstart").plain(), tmp_path)[0] is None


def test_a_configured_task_stands_for_a_file(tmp_path):
    assert terms_in(tmp_path) == Terms()
    assert terms_in(tmp_path, "mnist") == Terms(tasks=(Spec("mnist"),))
