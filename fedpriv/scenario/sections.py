"""The sections of a scenario file, key for key; each one checks its own numbers."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from fedpriv.errors import BadOption


def at_least(what: str, value: float, low: float) -> None:
    if not value >= low:
        raise BadOption(f"{what} must be at least {low}, got {value}.")


MOST = 1_000_000  # rounds, clients, epochs: beyond it somebody mistyped


def counted(what: str, value: int, most: int = MOST) -> None:
    """BadOption unless 1 <= value <= most."""
    if not 1 <= value <= most:
        raise BadOption(f"{what} must be between 1 and {most}, got {value}.")


def between(what: str, value: float, low: float, high: float) -> None:
    """BadOption unless low < value <= high."""
    if not low < value <= high:
        raise BadOption(f"{what} must be above {low} and at most {high}, got {value}.")


LONGEST_NAME = 120  # bytes: with a time and a suffix beside it, file systems take 255


def why_no_name(name: str) -> str:
    """Why a name cannot be a part of a path, which must stay in the folder it is put into."""
    if not name or name != name.strip() or name.startswith("."):
        return "it must not be empty, nor begin with a dot, nor begin or end with a space"
    if any(letter in "/\\" or not letter.isprintable() for letter in name):
        return "it must not hold slashes or signs that cannot be printed"
    if len(name.encode("utf-8", "replace")) > LONGEST_NAME:
        return f"it must have at most {LONGEST_NAME} bytes"
    return ""


def named(what: str, name: str) -> None:
    if why := why_no_name(name):
        raise BadOption(f"{what}: {name!r:.100} is no name for a folder: {why}.")


@dataclass(frozen=True)
class Spec:
    """A name people type and the options beside it: `Spec("pruning", {"fraction": 0.05})`."""

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)

    def plain(self) -> dict[str, Any]:
        return {"name": self.name, **self.options}


def spelled(spec: Spec) -> str:
    """`pruning(fraction=0.05)`: a part with its options, as people read it."""
    options = ", ".join(f"{key}={value}" for key, value in spec.options.items())
    return f"{spec.name}({options})" if options else spec.name


@dataclass(frozen=True, kw_only=True)
class Data:
    """Which data, from where, and who gets what."""

    name: str = "mnist-5k"
    root: str = ""  # default: $FEDPRIV_DATA, then the hub cache
    partition: Literal["iid", "dirichlet", "shards", "natural", "vertical"] = "iid"
    alpha: float = 0.5
    shards_per_client: int = 2
    limit: int | None = None
    reserve: int = 0  # training samples that no client gets: for who wants to know who was in
    options: Mapping[str, Any] = field(default_factory=dict)  # of the data set itself

    def __post_init__(self) -> None:
        between("data.alpha", self.alpha, 0, 1e6)
        counted("data.shards-per-client", self.shards_per_client)
        if self.limit is not None:
            counted("data.limit", self.limit, 10**9)
        at_least("data.reserve", self.reserve, 0)


@dataclass(frozen=True, kw_only=True)
class Training:
    """How a client trains in one round."""

    optimiser: Literal["sgd", "adam"] = "sgd"
    lr: float = 0.01
    momentum: float = 0.0
    weight_decay: float = 0.0
    schedule_rounds: tuple[int, ...] = ()  # lr is multiplied by the factor after each of these
    schedule_factor: float = 0.1
    local_epochs: int = 1
    local_steps: int | None = None  # instead of epochs; 1 is FedSGD
    batch_size: int = 32
    mode: Literal["train", "eval"] = "train"
    holdout: float = 0.0  # the fraction of its own samples a client keeps for its evaluation

    def __post_init__(self) -> None:
        between("training.lr", self.lr, 0, 1e3)
        between("training.schedule-factor", self.schedule_factor, 0, 1)
        if not 0 <= self.momentum < 1:
            raise BadOption(f"training.momentum must be in [0, 1), got {self.momentum}.")
        at_least("training.weight-decay", self.weight_decay, 0)
        counted("training.local-epochs", self.local_epochs)
        counted("training.batch-size", self.batch_size)
        if self.local_steps is not None:
            counted("training.local-steps", self.local_steps)
        if not 0 <= self.holdout < 1:
            raise BadOption(f"training.holdout must be in [0, 1), got {self.holdout}.")

    def steps_for(self, samples: int) -> int:
        """Local steps in a round of a client with so many samples."""
        if self.local_steps is not None:
            return self.local_steps
        return self.local_epochs * math.ceil(samples / min(self.batch_size, samples))

    def lr_at(self, server_round: int) -> float:
        """The learning rate of a round: lr · factor^(schedule rounds already passed)."""
        passed = sum(server_round > milestone for milestone in self.schedule_rounds)
        return self.lr * self.schedule_factor**passed


@dataclass(frozen=True, kw_only=True)
class Federation:
    """Who takes part, for how long, and on what."""

    clients: int = 10
    fraction: float = 1.0
    rounds: int = 10
    strategy: str = "fedavg"
    min_clients: int = 1  # fewer usable answers than this end the run
    timeout: float | None = None  # seconds a round waits for answers; None waits for all
    backend: Literal["auto", "inline", "ray"] = "auto"
    cpus_per_client: float = 1.0
    gpus_per_client: float = 0.0
    device: str = "auto"
    secagg: bool = False

    def __post_init__(self) -> None:
        counted("federation.clients", self.clients)
        counted("federation.rounds", self.rounds)
        between("federation.fraction", self.fraction, 0, 1)
        at_least("federation.min-clients", self.min_clients, 1)
        between("federation.cpus-per-client", self.cpus_per_client, 0, 4096)
        at_least("federation.gpus-per-client", self.gpus_per_client, 0)
        if self.min_clients > self.clients:
            raise BadOption(
                f"federation.min-clients is {self.min_clients} but there are only "
                f"{self.clients} clients; lower it."
            )
        if self.timeout is not None:
            between("federation.timeout", self.timeout, 0, 1e7)


@dataclass(frozen=True, kw_only=True)
class Attack:
    """One attack on recorded rounds: which rounds, how many victims, its own options beside."""

    name: str
    rounds: str | tuple[int, ...] = "all"  # "all", "first", "last", "every 5" or a list
    victims: int | None = None
    during: bool = False  # in the background while the federation trains, not afterwards
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.victims is not None:
            at_least("attacks.victims", self.victims, 1)
        self.wants(1, 1)

    def wants(self, server_round: int, rounds: int) -> bool:
        """Whether this attack looks at `server_round` of `rounds`."""
        if not isinstance(self.rounds, str):
            return server_round in self.rounds
        word, _, count = self.rounds.partition(" ")
        if self.rounds == "all":
            return True
        if self.rounds == "first":
            return server_round == 1
        if self.rounds == "last":
            return server_round == rounds
        if word == "every" and count.isdigit() and int(count) > 0:
            return server_round % int(count) == 0
        raise BadOption(
            f"attacks.rounds must be 'all', 'first', 'last', 'every N' or a list of rounds, "
            f"got {self.rounds!r}."
        )


@dataclass(frozen=True, kw_only=True)
class Inference:
    """Questions about the training set as a whole: who was in it, whose a sample is."""

    candidates: int = 2000  # half of them members, half held-out samples of the same labels

    def __post_init__(self) -> None:
        at_least("inference.candidates", self.candidates, 2)


@dataclass(frozen=True, kw_only=True)
class Malicious:
    """A server that changes what it sends, from a round on."""

    name: str
    from_round: int = 1
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        at_least("malicious.from-round", self.from_round, 1)


@dataclass(frozen=True, kw_only=True)
class Representation:
    """Codes instead of updates: who encodes how, what is learned from the pool, who is curious."""

    autoencoder: str = "mlp"
    options: Mapping[str, Any] = field(default_factory=dict)  # of the autoencoder
    layer: str = ""  # the layer whose output is shared; "" is the last, "input" the sample itself
    tasks: tuple[str, ...] = ("label",)  # "label" or an attribute of the data set
    private: tuple[str, ...] = ()  # attributes that nobody should read off the codes
    initiator: int = -1  # the party that trains the encoder; -1 is the one with most samples
    learner: Literal["server", "clients"] = "server"  # who trains on the pool
    encoder_epochs: int = 10
    decoder_epochs: int = 10  # of substitute decoders and attribute classifiers
    task_epochs: int = 10
    batch_size: int = 64
    lr: float = 1e-3
    parties: int = 3  # vertical: the columns are divided among so many, whoever takes part
    label_party: int = 0
    missing: float = 0.0  # vertical: the share of rows that a party does not have
    publish_encoders: bool = False  # vertical: whether codes of chosen samples can be had
    # The party that attacks the others. -1 is the last party. A vertical federation does not use
    # it: there the attacker is an outsider.
    curious: int = -1
    curious_samples: int = 1000  # vertical: the outsider's rows, which no party holds
    victims: int = 256  # samples of each other party that attacks are scored on

    def __post_init__(self) -> None:
        for name in ("encoder_epochs", "decoder_epochs", "task_epochs", "batch_size", "parties"):
            counted(f"representation.{name.replace('_', '-')}", getattr(self, name))
        between("representation.lr", self.lr, 0, 1e3)
        at_least("representation.victims", self.victims, 1)
        if not self.tasks:
            raise BadOption("representation.tasks must name at least one task, such as 'label'.")
        if not 0 <= self.missing < 1:
            raise BadOption(f"representation.missing must be in [0, 1), got {self.missing}.")
        if not 0 <= self.label_party < self.parties:
            raise BadOption(
                f"representation.label-party is {self.label_party}, but there are "
                f"{self.parties} parties, 0 to {self.parties - 1}."
            )


@dataclass(frozen=True, kw_only=True)
class Variant:
    """A row of a comparison: a name and the settings in which it differs."""

    name: str
    set: Mapping[str, Any] = field(default_factory=dict)
    plugins: tuple[Mapping[str, Any], ...] | None = None  # instead of the scenario's own

    def __post_init__(self) -> None:
        named("[[variants]] name", self.name)


@dataclass(frozen=True, kw_only=True)
class Defence:
    """One mechanism of a sweep: its plugins, the option that is swept, and who knows of it."""

    name: str
    plugins: tuple[Mapping[str, Any], ...] = ()
    vary: str = ""  # "spn.alpha2": the plugin and the option
    values: tuple[Any, ...] = ()
    informed: tuple[str, ...] | None = None  # None: the attacks whose row knows one of its plugins


@dataclass(frozen=True, kw_only=True)
class Sweep:
    """A grid: defence × value × attack × batch size × seed."""

    attacks: tuple[str, ...] = ("dlg",)
    batch_sizes: tuple[int, ...] = (1,)
    seeds: tuple[int, ...] = (0,)
    victims: int = 8
    at: float = 1.0  # the fraction of training after which updates are attacked
    mode: Literal["", "train", "eval"] = ""  # of the attacked updates; "" as the training's
    options: Mapping[str, Any] = field(default_factory=dict)  # of the attacks, by attack name

    def __post_init__(self) -> None:
        at_least("sweep.victims", self.victims, 1)
        for name in ("batch_sizes", "seeds", "attacks"):
            if not getattr(self, name):
                raise BadOption(f"sweep.{name.replace('_', '-')} must not be empty.")
        for size in self.batch_sizes:
            counted("sweep.batch-sizes", size)
        if not 0 <= self.at <= 1:
            raise BadOption(f"sweep.at must be in [0, 1], got {self.at}.")
