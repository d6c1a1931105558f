"""The virtual clients of a simulation: one Flower context each, and their private state on disk."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from flwr.app import Context, RecordDict
from google.protobuf.message import DecodeError

from fedpriv.errors import BadFolder
from fedpriv.files import write_bytes
from fedpriv.flower import RecordDict as ProtoRecordDict
from fedpriv.flower import recorddict_from_proto, recorddict_to_proto
from fedpriv.rng import seed_of
from fedpriv.scenario import Scenario

RUN_ID, SERVER_NODE = 1, 1
SEEDED = "SEEDED FOR SIMULATION: repeatable, and no secret from who knows the seed"


def contexts_of(
    scenario: Scenario, run_config: dict[str, Any], truth: Path | None = None
) -> dict[int, Context]:
    """A context for every virtual client, by node id; `truth` is where they keep the truth."""
    kept = {"truth-folder": str(truth)} if truth and scenario.keeps_truth else {}
    count = scenario.federation.clients
    return {
        node: Context(
            run_id=RUN_ID,
            node_id=node,
            node_config={
                "partition-id": partition,
                "num-partitions": count,
                "secret-seed": seed_of(scenario.seed, "secret", partition) >> 2,
                **kept,
            },
            state=RecordDict(),
            run_config=run_config,
        )
        for partition in range(count)
        if (node := partition + 2)
    }


def save_states(folder: Path, contexts: Iterable[Context], server_round: int) -> None:
    """Write each client's private state as of a round, for the owner's eyes only."""
    for context in contexts:
        if not context.state:
            continue
        if not folder.exists():
            folder.mkdir(parents=True)
            folder.chmod(0o700)
        name = f"{context.node_config['partition-id']}-{server_round}.bin"
        data = recorddict_to_proto(context.state).SerializeToString()
        write_bytes(folder / name, data, mode=0o600)


def drop_states(folder: Path, before: int) -> None:
    """Remove states that a newer one, not younger than round `before`, has replaced."""
    for files in _by_partition(folder).values():
        rounds = sorted(r for r in files if r <= before)
        for old in rounds[:-1]:
            files[old].unlink(missing_ok=True)


def load_states(folder: Path, contexts: Iterable[Context], server_round: int) -> None:
    """Give each client the state it had at the end of a round."""
    saved = _by_partition(folder)
    for context in contexts:
        files = saved.get(int(context.node_config["partition-id"]), {})
        rounds = [r for r in files if r <= server_round]
        for newer in files.keys() - set(rounds):
            files[newer].unlink(missing_ok=True)
        if not rounds:
            continue
        path = files[max(rounds)]
        try:
            proto = ProtoRecordDict.FromString(path.read_bytes())
        except (OSError, DecodeError) as error:
            raise BadFolder(f"The client state '{path}' is damaged ({error}).") from error
        context.state = recorddict_from_proto(proto)


def _by_partition(folder: Path) -> dict[int, dict[int, Path]]:
    """Files by partition and round."""
    found: dict[int, dict[int, Path]] = {}
    for path in folder.glob("*-*.bin") if folder.exists() else ():
        partition, _, server_round = path.stem.partition("-")
        if partition.isdigit() and server_round.isdigit():
            found.setdefault(int(partition), {})[int(server_round)] = path
    return found
