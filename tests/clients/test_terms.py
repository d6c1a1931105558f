"""A client's terms: no scenario calls functions, drops the owner's plugins or gets the truth."""

import sys

import pytest
from messages import context_of, message_of

from fedpriv.clients.protection.terms import on_own_terms, terms_in
from fedpriv.errors import BadScenario
from fedpriv.scenario import Scenario, from_tables


@pytest.fixture(autouse=True)
def no_ray(monkeypatch):
    """A client in a process with Ray counts as simulated; an earlier test may have started Ray."""
    monkeypatch.delitem(sys.modules, "ray", raising=False)


def followed(tables, folder, **own):
    """The scenario and node configuration a client's handler sees, or its refusal."""
    seen = {}
    scenario = from_tables(tables)
    context = context_of(scenario, state_folder=str(folder), **{"secret_seed": None, **own})

    def handler(message, context):
        seen.update(scenario=Scenario.of(context.run_config), own=dict(context.node_config))
        return message

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
    (tmp_path / "terms.toml").write_text('imports = ["my:Net"]\n')
    assert followed({"model": {"name": "my:Net"}}, tmp_path)[0] is None


def test_the_owners_plugins_come_first_with_the_owners_options(tmp_path):
    (tmp_path / "terms.toml").write_text('[[plugins]]\nname = "guard"\naction = "refuse"\n')
    plugins = [{"name": "noise", "scale": 0.1}, {"name": "guard", "action": "warn"}]
    _, seen = followed({"plugins": plugins}, tmp_path)
    assert [spec.name for spec in seen["scenario"].plugins] == ["guard", "noise"]
    assert seen["scenario"].plugins[0].options == {"action": "refuse"}


def test_data_are_read_only_where_the_owner_put_them(tmp_path):
    _, seen = followed({"data": {"root": "/etc"}}, tmp_path)
    assert seen["scenario"].data.root == ""


def test_the_truth_is_kept_only_if_the_owner_says_so(tmp_path):
    assert "truth-folder" not in followed({"keep-truth": True}, tmp_path)[1]["own"]
    (tmp_path / "terms.toml").write_text("keep-truth = true\n")
    _, seen = followed({"keep-truth": True}, tmp_path)
    assert seen["own"]["truth-folder"] == str(tmp_path / "truth")


@pytest.mark.parametrize(
    "text", ["plugin = 1\n", "imports = 3\n", "not toml", "[[plugins]]\nx = 1\n"]
)
def test_terms_that_cannot_be_used_are_named(text, tmp_path):
    (tmp_path / "terms.toml").write_text(text)
    with pytest.raises(BadScenario, match=r"terms\.toml"):
        terms_in(tmp_path)
    refusal, seen = followed({}, tmp_path)
    assert "terms.toml" in refusal and not seen
