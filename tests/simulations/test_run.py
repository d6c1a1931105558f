"""Whole runs in this process: the same bytes twice, after an interruption, in other folders."""

import json
from pathlib import Path

import pytest
import torch
from rich.console import Console

from fedpriv.errors import BadFolder, WorkFailed
from fedpriv.runfolder import RunFolder, load_state
from fedpriv.scenario import from_tables
from fedpriv.scenario.built import shares_of
from fedpriv.simulations.federation.backends import chosen
from fedpriv.simulations.federation.exposure import Starts
from fedpriv.simulations.federation.progress import LiveBar, PlainLines
from fedpriv.simulations.federation.run import simulate


class Quiet(PlainLines):
    """A show in which Ctrl-C comes after a round."""

    def __init__(self, stop_after=None):
        super().__init__(Console(quiet=True))
        self.stop_after = stop_after

    def on_round(self, record):
        super().on_round(record)
        if record["round"] == self.stop_after:
            raise KeyboardInterrupt


def run(scenario, path, **options):
    stop = options.pop("stop_after", None)
    return simulate(scenario, RunFolder(Path(path)), Quiet(stop), **options)


def changed(tiny, **sections):
    plain = tiny.plain()
    return from_tables({**plain, **{k: {**plain.get(k, {}), **v} for k, v in sections.items()}})


def test_the_same_seed_gives_the_same_bytes_and_another_seed_others(tiny, tmp_path):
    first = run(tiny, tmp_path / "a").model_file.read_bytes()
    assert run(tiny, tmp_path / "b").model_file.read_bytes() == first
    other = from_tables({**tiny.plain(), "seed": 4})
    assert run(other, tmp_path / "c").model_file.read_bytes() != first


def test_a_run_folder_holds_what_it_promises(tiny, tmp_path):
    folder = run(tiny, tmp_path / "a")
    lines = [json.loads(line) for line in folder.rounds_file.read_text().splitlines()]
    assert [line["round"] for line in lines] == [1, 2, 3]
    assert {"accuracy", "loss", "bytes-up", "bytes-down", "seconds", "failed"} <= lines[0].keys()
    assert folder.scenario() == tiny
    environment = json.loads(folder.environment_file.read_text())
    assert environment["packages"]["flwr"].startswith("1.39")
    assert load_state(folder.model_file).keys()
    header, *rows = folder.partition_file.read_text().splitlines()
    assert header == "client,class-0,class-1,class-2,class-3,samples"
    assert [sum(map(int, row.split(",")[1:5])) for row in rows] == [128] * 4


def test_a_federation_learns(tiny, tmp_path):
    rounds = run(changed(tiny, federation={"rounds": 5}), tmp_path / "a").rounds()
    assert rounds[-1]["accuracy"] > 0.9


@pytest.mark.parametrize("strategy", ["fedavg", "round-robin", "standalone"])
def test_interrupted_and_resumed_ends_like_uninterrupted(tiny, tmp_path, strategy):
    scenario = changed(
        tiny, federation={"strategy": strategy, "rounds": 6}, training={"holdout": 0.1}
    )
    whole = run(scenario, tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        run(scenario, tmp_path / "cut", stop_after=3)
    resumed = run(scenario, tmp_path / "cut", resume=True)
    assert resumed.model_file.read_bytes() == whole.model_file.read_bytes()
    assert figures(resumed) == figures(whole)


def figures(folder):
    return [{**record, "seconds": 0} for record in folder.rounds()]


@pytest.mark.parametrize("strategy", ["fedavg", "standalone"])
def test_a_run_that_is_told_to_stop_keeps_the_round_and_goes_on_later(tiny, tmp_path, strategy):
    scenario = changed(tiny, federation={"strategy": strategy, "rounds": 4})
    whole = run(scenario, tmp_path / "whole")
    cut = run(scenario, tmp_path / "cut", going_on=lambda record: record["round"] < 2)
    assert [record["round"] for record in cut.rounds()] == [1, 2]
    assert cut.last_round()["round"] == 2
    resumed = run(scenario, tmp_path / "cut", resume=True)
    assert resumed.model_file.read_bytes() == whole.model_file.read_bytes()
    assert figures(resumed) == figures(whole)


def test_private_state_is_for_the_owner_only(tiny, tmp_path):
    scenario = changed(tiny, federation={"strategy": "standalone"})
    folder = run(scenario, tmp_path / "a")
    files = list(folder.clients.iterdir())
    assert folder.clients.stat().st_mode & 0o777 == 0o700
    assert {f.stat().st_mode & 0o777 for f in files} == {0o600}
    assert {f.stem.split("-")[1] for f in files} <= {"2", "3"}


def test_a_damaged_client_state_is_named(tiny, tmp_path):
    scenario = changed(tiny, federation={"strategy": "standalone"})
    with pytest.raises(KeyboardInterrupt):
        run(scenario, tmp_path / "a", stop_after=2)
    folder = RunFolder(tmp_path / "a")
    for file in folder.clients.iterdir():
        file.write_bytes(b"\xff\xff\xff garbage")
    with pytest.raises(BadFolder, match="damaged"):
        run(scenario, tmp_path / "a", resume=True)


def test_a_finished_run_has_nothing_left_to_do(tiny, tmp_path):
    folder = run(tiny, tmp_path / "a")
    before = folder.model_file.read_bytes()
    run(tiny, tmp_path / "a", resume=True)
    assert folder.model_file.read_bytes() == before
    assert len(folder.rounds()) == 3


def test_a_line_cut_short_by_a_crash_is_done_again(tiny, tmp_path):
    whole = run(tiny, tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        run(tiny, tmp_path / "a", stop_after=3)
    folder = RunFolder(tmp_path / "a")
    with folder.rounds_file.open("a") as lines:
        lines.write('{"round": 3, "accu')
    run(tiny, tmp_path / "a", resume=True)
    assert [r["round"] for r in folder.rounds()] == [1, 2, 3]
    assert folder.model_file.read_bytes() == whole.model_file.read_bytes()


def test_folders_are_not_overwritten_nor_resumed_under_other_settings(tiny, tmp_path):
    run(tiny, tmp_path / "a")
    with pytest.raises(BadFolder, match="holds a run already"):
        run(tiny, tmp_path / "a")
    with pytest.raises(BadFolder, match="other settings"):
        run(changed(tiny, training={"lr": 0.2}), tmp_path / "a", resume=True)
    with pytest.raises(BadFolder, match="no run to resume"):
        run(tiny, tmp_path / "empty", resume=True)


def test_what_rounds_start_from_is_kept_where_it_is_asked_for(tiny, tmp_path):
    scenario = changed(tiny, federation={"strategy": "standalone"})
    starts = Starts(tmp_path / "starts")
    run(scenario, tmp_path / "a", starts=starts, keep=[2])
    assert starts.rounds() == [1, 2]
    kept = starts.of(2)
    assert kept.last_round()["round"] == 1 and len(list(kept.clients.iterdir())) == 4
    stopped = Starts(tmp_path / "stopped")
    cut = run(scenario, tmp_path / "b", starts=stopped, going_on=lambda record: False)
    assert stopped.rounds() == [1, 2]  # what the next round would start from
    after, start = cut.checkpoint_state(), stopped.of(2).checkpoint_state()
    assert all(torch.equal(after[key], start[key]) for key in after)


def test_a_place_that_cannot_be_written_is_named(tiny, tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(BadFolder, match="cannot be written"):
        run(tiny, tmp_path / "file" / "run")


def test_too_few_clients_fail_the_work_but_keep_what_was_done(tiny, tmp_path):
    scenario = changed(tiny, training={"lr": 500.0, "local-epochs": 4})
    with pytest.raises(WorkFailed, match="usable answer"):
        run(scenario, tmp_path / "a")
    assert RunFolder(tmp_path / "a").scenario() == scenario


def test_more_clients_than_samples_is_refused(tiny, tmp_path):
    with pytest.raises(Exception, match="clients") as caught:
        shares_of(changed(tiny, federation={"clients": 100000}))
    assert caught.type.__name__.startswith("Bad")


def test_the_backend_is_chosen_for_a_reason(tiny):
    def backend(address=None, **federation):
        return chosen(changed(tiny, federation={"backend": "auto", **federation}), address)

    assert backend()[0] == "inline"
    assert "not pay" in backend()[1]
    assert backend("localhost:1")[0] == "ray"
    assert backend("localhost:1", strategy="round-robin")[0] == "inline"
    assert backend(backend="ray") == ("ray", "federation.backend says so")


def test_auto_compares_what_ray_saves_with_what_its_start_takes_here(tiny, tmp_path, monkeypatch):
    from fedpriv.simulations.federation import backends, ray_start

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(backends, "work_seconds", lambda scenario: 40.0)
    monkeypatch.setattr(backends.os, "cpu_count", lambda: 2)  # which save half of it
    auto = changed(tiny, federation={"backend": "auto"})
    for took, name in ((12.0, "ray"), (90.0, "inline"), (91.0, "inline")):
        ray_start.remember(took)
        found, why = chosen(auto, None)
        assert found == name and "federation.backend" in why and "start" in why
    assert ray_start.remembered() == [12.0, 90.0, 91.0]
    assert ray_start.start_seconds()[0] == 90.0
    ray_start.place().write_text("not a list")  # damaged: nothing is remembered
    assert ray_start.start_seconds(lambda: 2.0)[0] == 2.0 * ray_start.IMPORTS


def test_a_terminal_gets_a_bar(tiny, tmp_path):
    console = Console(force_terminal=True, width=100, file=(tmp_path / "screen").open("w"))
    simulate(tiny, RunFolder(tmp_path / "a"), LiveBar(console))
    console.file.close()
    assert "accuracy" in (tmp_path / "screen").read_text()


def test_data_are_read_and_partitioned_once(tiny, tmp_path):
    from fedpriv.scenario import built as parts

    parts._dataset.cache_clear()
    parts._shares.cache_clear()
    run(tiny, tmp_path / "a")
    assert parts._dataset.cache_info().misses == 1
    assert parts._shares.cache_info().misses == 1


def test_threads_of_the_process_are_left_alone(tiny, tmp_path):
    before = torch.get_num_threads()
    run(tiny, tmp_path / "a")
    assert torch.get_num_threads() == before


def test_a_run_that_is_told_to_stop_before_its_first_round_has_none(tiny, tmp_path):
    """Nobody is asked any more, so that no client says who it is: that is no failure."""
    folder = run(tiny, tmp_path / "a", progress=lambda part, loss: False)
    assert folder.rounds() == []
    assert run(tiny, tmp_path / "a", resume=True).last_round()["round"] == 3
