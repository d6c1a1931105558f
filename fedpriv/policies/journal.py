"""Journal: the scores known so far, on disk as they come in, so that a search can go on."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

from fedpriv.errors import BadFolder

Kind = Literal["accuracy", "sketch", "privacy"]


class Task(NamedTuple):
    """Scores `first` to `last` − 1 of a policy: rounds of S_acc, images of S_pri or its sketch."""

    policy: str
    kind: Kind
    first: int
    last: int


class Journal:
    """Scores by kind and policy, in the order of images or rounds; a finished task is a line.

    The first line holds the settings: scores of another search are refused, not mixed in. A last
    line cut short by a crash is dropped.
    """

    def __init__(self, settings: Mapping[str, Any], path: Path | None = None) -> None:
        self.scores: dict[Kind, dict[str, list[float]]] = {kind: {} for kind in get_args(Kind)}
        self.path = path
        self._settings = json.dumps(dict(settings), sort_keys=True)
        if path is not None:
            self._open(path)

    def _open(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = path.read_text(encoding="utf-8").splitlines(True) if path.exists() else []
        whole = [line for line in lines if line.endswith("\n")]
        if whole:
            self._check(whole[0], path)
        for number, line in enumerate(whole[1:], 2):
            try:
                policy, kind, first, last, values = json.loads(line)
                self._take(Task(policy, kind, first, last), values)
            except (ValueError, KeyError, TypeError) as error:
                raise BadFolder(
                    f"{path}, line {number}, is no score ({error}); delete the file to start again."
                ) from error
        if len(whole) < max(1, len(lines)):  # new, or its last line was cut short
            path.write_text("".join(whole) or self._settings + "\n", encoding="utf-8")

    def _check(self, header: str, path: Path) -> None:
        try:
            found, wanted = json.loads(header), json.loads(self._settings)
            unlike = [key for key in wanted if found.get(key) != wanted[key]]
        except (ValueError, AttributeError) as error:
            raise BadFolder(f"{path} is no journal of a policy search: {error}.") from error
        if unlike:
            key = unlike[0]
            raise BadFolder(
                f"{path} holds scores of another search: {key} was {found.get(key)!r}, now "
                f"{wanted[key]!r}. Use the same settings, another --out, or delete it."
            )

    def _take(self, task: Task, values: Sequence[float]) -> None:
        known = self.scores[task.kind].setdefault(task.policy, [])
        if len(values) != task.last - task.first:
            raise ValueError(f"{len(values)} values for {task.last - task.first}")
        if task.first == len(known):
            known.extend(map(float, values))

    def __len__(self) -> int:
        """How many scores are known."""
        return sum(len(row) for rows in self.scores.values() for row in rows.values())

    def missing(self, policies: Sequence[str], kind: Kind, until: int) -> list[Task]:
        """What is left to do until each policy has its first `until` scores of one kind."""
        known = {policy: len(self.scores[kind].get(policy, ())) for policy in policies}
        return [
            Task(policy, kind, count, until) for policy, count in known.items() if count < until
        ]

    def add(self, task: Task, values: Sequence[float]) -> None:
        """Remember the scores of a finished task."""
        self._take(task, values)
        if self.path is not None:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps([*task, list(values)]) + "\n")
