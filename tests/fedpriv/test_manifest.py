"""Two runs of one scenario hold the same; what was touched since is found."""

import json
import shutil
import stat

import pytest

from fedpriv.errors import BadFolder
from fedpriv.manifest import compare, sums, write_manifest
from fedpriv.runfolder import RunFolder
from fedpriv.scenario import from_tables
from fedpriv.simulations.api import run

TINY = {
    "name": "tiny",
    "data": {"name": "mnist-5k", "limit": 200},
    "training": {"batch-size": 1, "local-steps": 1},
    "federation": {"clients": 2, "rounds": 1, "backend": "inline"},
    "attacks": [{"name": "quick", "steps": 2}],
}


@pytest.fixture(scope="module")
def twice(tmp_path_factory):
    place = tmp_path_factory.mktemp("twice")
    return [run(from_tables(TINY), out=place / name, quiet=True).folder for name in ("a", "b")]


def test_a_second_run_holds_the_same(twice):
    found = compare(*twice)
    assert found.same and not found.changed
    assert "model.safetensors" in found.equal
    assert {"rounds.jsonl", "scores.csv"} <= {*found.timed, *found.equal}
    assert "attacks/quick/1-0.npz" in {*found.timed, *found.equal}


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("scores.csv", lambda text: text.replace("sample", "simple")),
        ("rounds.jsonl", lambda text: text.replace('"clients": 2', '"clients": 1')),
        ("scenario.toml", lambda text: text + "\n"),
    ],
)
def test_a_changed_result_is_found(twice, tmp_path, name, change):
    copy = shutil.copytree(twice[1], tmp_path / "copy")
    before = (copy / name).read_text("utf-8")
    assert change(before) != before
    (copy / name).write_text(change(before), "utf-8")
    found = compare(twice[0], copy)
    assert not found.same and found.different == [name]
    assert found.changed == [f"{copy}: {name}"]


def test_a_table_with_more_cells_than_columns_is_summed_too(twice, tmp_path):
    shutil.copytree(twice[0], tmp_path / "odd")
    (tmp_path / "odd" / "scores.csv").write_text("b,a\n1,2,3,4\n")
    assert "scores.csv" in sums(tmp_path / "odd")


def test_files_that_only_one_has(twice, tmp_path):
    copy = shutil.copytree(twice[1], tmp_path / "copy")
    (copy / "model.safetensors").unlink()
    (copy / "more.txt").write_text("?")
    found = compare(twice[0], copy)
    assert (found.missing, found.added, found.same) == (["model.safetensors"], ["more.txt"], False)


def test_a_manifest_stands_for_its_folder(twice):
    place = RunFolder(twice[0]).manifest_file
    assert compare(twice[1], place).same
    assert stat.S_IMODE(place.stat().st_mode) == 0o600


def test_what_went_in_is_summed_once(twice, tmp_path):
    folder = RunFolder(shutil.copytree(twice[0], tmp_path / "copy"))
    known = folder.manifest()
    known["inputs"]["lock"] = "that of the first time"
    folder.manifest_file.write_text(json.dumps(known))
    write_manifest(folder)
    assert folder.manifest()["inputs"]["lock"] == "that of the first time"
    assert set(known["inputs"]["data"]) == {"mnist-5k"}
    folder.scenario_file.write_text(folder.scenario_file.read_text() + "\n")
    write_manifest(folder)
    assert folder.manifest()["inputs"]["lock"] != "that of the first time"


def test_pages_and_locks_are_no_results(twice):
    assert not {"report.html", "report.pdf", "manifest.json", ".lock"} & sums(twice[0]).keys()


@pytest.mark.parametrize("text", ["{}", '{"schema": "fedpriv-manifest-1", "files": {"a": 1}}', "["])
def test_what_is_no_manifest_is_said_so(twice, tmp_path, text):
    place = tmp_path / "manifest.json"
    place.write_text(text)
    with pytest.raises(BadFolder, match=r"manifest\.json"):
        compare(twice[0], place)
    with pytest.raises(BadFolder, match="nowhere"):
        compare(twice[0], tmp_path / "nowhere")
