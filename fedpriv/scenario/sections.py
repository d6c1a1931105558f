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
    """Which data, from where, and who gets what.

    Args:
        name: The data set: a name of `fedpriv list data`, or `pkg.module:Name` of your own.
            Example: `"cifar10"`.
        root: The folder with its files. Default: the folder in $FEDPRIV_DATA, then the hub's cache.
            Example: `"/data"`.
        partition: Who gets which samples: the same mix for all, mixes drawn from a Dirichlet
            distribution, a few classes each, by the persons in the data, or each party some
            columns. Example: `"dirichlet"`.
        alpha: How even the mixes of "dirichlet" are. Small values give each client few classes.
            Example: `0.1`.
        shards_per_client: With "shards": pieces of one class that each client gets. Example: `2`.
        limit (samples): Use this many of the training samples, and as large a part of the test
            samples, unless `test-limit` says how many. Example: `600`.
        test_limit (samples): Use this many of the test samples; all if there are fewer. More of
            them give an accuracy with a smaller error. Example: `10000`.
        reserve (samples): Training samples that no client gets. Questions about who was in the
            training set need some. Example: `1000`.
        options: Options of the data set itself; the manual's page of data lists them. Example: `{
            normalise = false }`.
    """

    name: str = "mnist-5k"
    root: str = ""
    partition: Literal["iid", "dirichlet", "shards", "natural", "vertical"] = "iid"
    alpha: float = 0.5
    shards_per_client: int = 2
    limit: int | None = None
    test_limit: int | None = None
    reserve: int = 0
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        between("data.alpha", self.alpha, 0, 1e6)
        counted("data.shards-per-client", self.shards_per_client)
        if self.limit is not None:
            counted("data.limit", self.limit, 10**9)
        if self.test_limit is not None:
            counted("data.test-limit", self.test_limit, 10**9)
        at_least("data.reserve", self.reserve, 0)


@dataclass(frozen=True, kw_only=True)
class Training:
    """How a client trains in one round.

    Args:
        optimiser: Who takes the local steps. Example: `"adam"`.
        lr: Learning rate. Example: `0.1`.
        momentum: Momentum of SGD. Example: `0.9`.
        weight_decay: Pull of all weights towards zero. Example: `0.0005`.
        schedule_rounds (rounds): After each of these rounds the learning rate is multiplied by
            `schedule-factor`. Example: `[30, 60]`.
        schedule_factor: What the learning rate is multiplied by. Example: `0.5`.
        local_epochs (epochs): Passes over a client's samples in one round. Example: `2`.
        local_steps (steps): Steps in one round, instead of epochs; 1 is FedSGD, which leaks most.
            Example: `1`.
        batch_size (samples): Samples in one step. Small batches leak more. Example: `8`.
        mode: Whether layers such as dropout and BatchNorm train or are fixed. Example: `"eval"`.
        holdout: Part of its own samples that a client keeps for its evaluation. Example: `0.1`.
    """

    optimiser: Literal["sgd", "adam"] = "sgd"
    lr: float = 0.01
    momentum: float = 0.0
    weight_decay: float = 0.0
    schedule_rounds: tuple[int, ...] = ()
    schedule_factor: float = 0.1
    local_epochs: int = 1
    local_steps: int | None = None
    batch_size: int = 32
    mode: Literal["train", "eval"] = "train"
    holdout: float = 0.0

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
    """Who takes part, for how long, and on what.

    Args:
        clients (clients): How many take part. Each needs at least one sample. Example: `5`.
        fraction: Part of them that is asked in each round. Example: `0.5`.
        rounds (rounds): How long the federation trains. Example: `20`.
        strategy: How the server combines what clients share: a name of `fedpriv list strategies`.
            Example: `"round-robin"`.
        min_clients (clients): Fewer usable answers than this end the run. Example: `3`.
        timeout (seconds): How long a round waits for answers. Default: until all are there.
            Example: `60`.
        backend: "inline" trains one client after the other in this process, "ray" several at a
            time. "auto" chooses; `fedpriv check` says which and why. Example: `"inline"`.
        cpus_per_client (cores): On Ray: cores that each client gets. Example: `2`.
        gpus_per_client (GPUs): On Ray: GPUs that each client gets; 0.5 lets two share one. Example:
            `0.5`.
        device: Where tensors are: "auto" takes CUDA where there is one. Example: `"cuda:0"`.
        secagg: Secure aggregation: the server sees the sum of updates only. Example: `true`.
    """

    clients: int = 10
    fraction: float = 1.0
    rounds: int = 10
    strategy: str = "fedavg"
    min_clients: int = 1
    timeout: float | None = None
    backend: Literal["auto", "inline", "ray"] = "auto"
    cpus_per_client: float = 1.0
    gpus_per_client: float | Literal["auto"] = 0.0  # auto: as many clients as a GPU has room for
    device: str = "auto"
    secagg: bool = False

    def __post_init__(self) -> None:
        counted("federation.clients", self.clients)
        counted("federation.rounds", self.rounds)
        between("federation.fraction", self.fraction, 0, 1)
        at_least("federation.min-clients", self.min_clients, 1)
        between("federation.cpus-per-client", self.cpus_per_client, 0, 4096)
        if self.gpus_per_client != "auto":
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
    """One attack on recorded rounds: which rounds, how many victims, its own options beside.

    Args:
        name: The attack: a name of `fedpriv list attacks`, or `pkg.module:Name` of your own.
            Example: `"dlg"`.
        rounds: Which recorded rounds it looks at: "all", "first", "last", "every 5", or a list.
            Example: `"last"`.
        victims (updates): At most this many updates are attacked, over all rounds together.
            Default: all. Example: `4`.
        during: Attack in the background while the federation trains, not afterwards. Example:
            `true`.
        options: Options of the attack. They can also stand beside `name`. Example: `{ steps = 200
            }`.
    """

    name: str
    rounds: str | tuple[int, ...] = "all"
    victims: int | None = None
    during: bool = False
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
    """Questions about the training set as a whole: who was in it, whose a sample is.

    Args:
        candidates (samples): Samples that the attacker asks about: half of them members, half
            samples of the same labels that were held out. Example: `500`.
        members (samples): Members among them; audits ask about all. With more members than
            held-out samples each of these stands for several, and three quarters of the samples
            that no client has are candidates. Default: one member for each held-out sample.
            Example: `4000`.
    """

    candidates: int = 2000
    members: int | None = None

    def __post_init__(self) -> None:
        at_least("inference.candidates", self.candidates, 2)
        if self.members is not None:
            at_least("inference.members", self.members, 1)


@dataclass(frozen=True, kw_only=True)
class Malicious:
    """A server that changes what it sends, from a round on.

    Args:
        name: What the server plants: a name of `fedpriv list malicious`, or `pkg.module:Name`.
            Example: `"imprint"`.
        from_round (rounds): The first round in which it does. Example: `2`.
        victims: Clients that get the planted model, by partition number. Default: all. Example:
            `[0, 3]`.
        options: Options of what is planted. They can also stand beside `name`. Example: `{ spread =
            2.0 }`.
    """

    name: str
    from_round: int = 1
    victims: tuple[int, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        at_least("malicious.from-round", self.from_round, 1)


@dataclass(frozen=True, kw_only=True)
class Representation:
    """Codes instead of updates: who encodes how, what is learned from the pool, who is curious.

    Args:
        autoencoder: The network that makes codes: a name of `fedpriv list autoencoders`, or
            `pkg.module:Name`. Example: `"conv"`.
        options: Options of the autoencoder. Example: `{ code = 32 }`.
        layer: The layer whose output is shared. "" is the last one, "input" the sample itself.
            Example: `"fc2"`.
        tasks: What is learned from codes: "label", or attributes of the data set. Example:
            `["label"]`.
        initiator: The party that trains the encoder; -1 is the one with most samples. Example: `0`.
        learner: Who trains on the pooled codes. Example: `"clients"`.
        encoder_epochs (epochs): Training of the encoder. Example: `5`.
        decoder_epochs (epochs): Training of attackers' decoders and of attribute classifiers.
            Example: `20`.
        task_epochs (epochs): Training on the pool. Example: `5`.
        batch_size (samples): Samples in one step of all of these. Example: `32`.
        lr: Learning rate of all of these. Example: `0.0005`.
        parties (parties): Vertical: the columns are divided among this many. Example: `2`.
        label_party: Vertical: the party that has the labels, by number. Example: `1`.
        missing: Vertical: part of the rows that a party does not have. Example: `0.1`.
        publish_encoders: Vertical: whether the attacker can have samples of its own encoded.
            Example: `true`.
        curious: The party that attacks the others; -1 is the last. Vertical federations do not use
            it: there an outsider attacks. Example: `0`.
        curious_samples (samples): Vertical: the outsider's own rows, which no party holds. Example:
            `500`.
        victims (samples): Samples of each other party that attacks are scored on. Example: `64`.
    """

    autoencoder: str = "mlp"
    options: Mapping[str, Any] = field(default_factory=dict)
    layer: str = ""
    tasks: tuple[str, ...] = ("label",)
    initiator: int = -1
    learner: Literal["server", "clients"] = "server"
    encoder_epochs: int = 10
    decoder_epochs: int = 10
    task_epochs: int = 10
    batch_size: int = 64
    lr: float = 1e-3
    parties: int = 3
    label_party: int = 0
    missing: float = 0.0
    publish_encoders: bool = False
    curious: int = -1
    curious_samples: int = 1000
    victims: int = 256

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
    """A row of a comparison: a name and the settings in which it differs.

    Args:
        name: What the row is called; also the name of its folder. Example: `"pruned"`.
        set: Settings in which it differs from the scenario. Example: `{ "training.lr" = 0.1 }`.
        plugins: Its plugins, instead of the scenario's own. Example: `[{ name = "pruning", fraction
            = 0.1 }]`.
    """

    name: str
    set: Mapping[str, Any] = field(default_factory=dict)
    plugins: tuple[Mapping[str, Any], ...] | None = None

    def __post_init__(self) -> None:
        named("[[variants]] name", self.name)


@dataclass(frozen=True, kw_only=True)
class Defence:
    """One mechanism of a sweep: its plugins, the option that is swept, and who knows of it.

    Args:
        name: What tables and curves call it. Example: `"pruning"`.
        plugins: Its plugins with their options. Example: `[{ name = "pruning" }]`.
        vary: The plugin and the option that is swept, joined by a dot. Example:
            `"pruning.fraction"`.
        values: The values of that option. Example: `[0.3, 0.1, 0.03]`.
        informed: Attacks that know of it, beside those of the sweep. Default: the attacks whose row
            knows one of its plugins. Example: `["pruning-aware"]`.
    """

    name: str
    plugins: tuple[Mapping[str, Any], ...] = ()
    vary: str = ""
    values: tuple[Any, ...] = ()
    informed: tuple[str, ...] | None = None


@dataclass(frozen=True, kw_only=True)
class Sweep:
    """A grid: defence × value × attack × batch size × seed.

    Args:
        attacks: Attacks that every defence is tried with. Example: `["quick"]`.
        batch_sizes (samples): Batch sizes of the attacked updates. Example: `[1, 8]`.
        seeds: Seeds. Every setting is trained and attacked once with each; tables show the spread
            over them. Example: `[0, 1]`.
        victims (updates): Updates that are attacked in each setting. Example: `4`.
        at: Part of the training after which updates are attacked: 0 the beginning, 1 the end.
            Example: `0.5`.
        mode: Mode of the attacked updates; "" is the training's. Example: `"eval"`.
        options: Options of the attacks, by the attack's name. Example: `{ quick = { steps = 100 }
            }`.
    """

    attacks: tuple[str, ...] = ("dlg",)
    batch_sizes: tuple[int, ...] = (1,)
    seeds: tuple[int, ...] = (0,)
    victims: int = 8
    at: float = 1.0
    mode: Literal["", "train", "eval"] = ""
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        at_least("sweep.victims", self.victims, 1)
        for name in ("batch_sizes", "seeds", "attacks"):
            if not getattr(self, name):
                raise BadOption(f"sweep.{name.replace('_', '-')} must not be empty.")
        for size in self.batch_sizes:
            counted("sweep.batch-sizes", size)
        if not 0 <= self.at <= 1:
            raise BadOption(f"sweep.at must be in [0, 1], got {self.at}.")
