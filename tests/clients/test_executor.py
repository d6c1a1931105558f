"""The executor's door: only bundles the client trusts, and only ClientApps."""

import sys

import pytest
from flwr.cli.build import build_fab_from_files
from flwr.supercore.constant import TaskType
from flwr.supercore.superexec.executor.types import ExecutionSpec, LaunchResultStatus

from fedpriv.clients.protection.bundle import digest_of, own_bundle
from fedpriv.clients.protection.executor import ForkExecutor, check_bundle, trusted_bundles
from fedpriv.errors import BadOption, Refused


def foreign_bundle():
    text = """
[project]
name = "foreign"
version = "1.0.0"
[tool.flwr.app]
publisher = "somebody"
[tool.flwr.app.components]
serverapp = "foreign:app"
clientapp = "foreign:app"
"""
    return build_fab_from_files({"pyproject.toml": text.encode(), "foreign.py": b"app = None\n"})[0]


def test_our_own_bundle_is_the_same_every_time_and_holds_no_code():
    own_bundle.cache_clear()
    first = own_bundle()
    own_bundle.cache_clear()
    assert own_bundle() == first
    assert b".py" not in first.replace(b"pyproject", b"")


def test_our_own_bundle_is_trusted():
    check_bundle(own_bundle(), trusted_bundles(""))


def test_a_foreign_bundle_is_refused_by_its_digest():
    foreign = foreign_bundle()
    with pytest.raises(Refused, match=digest_of(foreign)):
        check_bundle(foreign, trusted_bundles(""))


@pytest.mark.parametrize("how", ["digest", "file", "any"])
def test_an_owner_can_trust_more(how, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "modules", dict(sys.modules))
    foreign = foreign_bundle()
    (tmp_path / "trusted").write_text(f"{digest_of(foreign)}\n")
    text = {"digest": digest_of(foreign), "file": str(tmp_path / "trusted"), "any": "any"}[how]
    check_bundle(foreign, trusted_bundles(text))


def test_a_bundle_with_code_does_not_find_ours_loaded(monkeypatch):
    loaded = dict(sys.modules)
    monkeypatch.setattr(sys, "modules", loaded)
    assert "fedpriv.clients.protection.bundle" in loaded
    check_bundle(foreign_bundle(), None)
    assert "fedpriv.clients.protection.bundle" not in loaded and "torch" in loaded


def test_what_is_no_digest_is_named():
    with pytest.raises(BadOption, match="'abc', which is no SHA-256"):
        trusted_bundles("abc")


def test_it_runs_clientapps_only():
    spec = ExecutionSpec(
        task_type=TaskType.SERVER_APP,
        runtime_api_address="127.0.0.1:1",
        token="t",
        insecure=True,
        root_certificates_path=None,
        runtime_dependency_install=False,
        parent_pid=None,
        suppress_output=False,
        task_id=1,
    )
    assert ForkExecutor(None).launch(spec).status == LaunchResultStatus.FAILED
