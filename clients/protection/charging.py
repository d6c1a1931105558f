"""What a message asks for is written down before the client looks at its samples.

A division of the data is noted before it is made: whether two divisions differ in one sample, or a
share is too small, depends on the labels, and a server could ask for thousands of them.
"""

import json
from collections.abc import Callable, Mapping
from math import ceil
from typing import Any

import torch
from flwr.app import Context, Message, MessageType

from fedpriv.catalogue import MODELS
from fedpriv.clients.job import accounted, own_split, share_of
from fedpriv.clients.protection.folder import folder_of
from fedpriv.clients.protection.ledger import ledger_in
from fedpriv.clients.protection.screening import check_steps
from fedpriv.clients.protection.terms import PRODUCTS, Terms, terms_of
from fedpriv.codes.coders import INPUT
from fedpriv.codes.parties import coder_of, holding_of, is_vertical, settings
from fedpriv.errors import BadData, BadInput, Refused
from fedpriv.scenario import Scenario
from fedpriv.scenario.built import dataset_of
from fedpriv.state import digest
from fedpriv.wire import CODES, POOL, received, round_of

CallNext = Callable[[Message, Context], Message]


def charged(message: Message, context: Context, call_next: CallNext) -> Message:
    """A Flower mod: count the message in the ledger, then check how much work it is."""
    folder = folder_of(context)
    if folder is None:
        return call_next(message, context)
    kind, terms = message.metadata.message_type, terms_of(context)
    scenario = Scenario.of(context.run_config)
    data, options = scenario.data.name, dict(scenario.data.options)
    data += f" {json.dumps(options, sort_keys=True)}" if options else ""
    server_round = None if kind == MessageType.QUERY else announced_round(scenario, message)
    check_bytes(terms, message)
    with ledger_in(folder) as (_, book):
        if kind != POOL:
            book.admit_division(data, division_of(scenario, context.node_config), terms.splits)
        if server_round is not None:
            book.admit_release(
                context.run_id, kind, server_round, terms.releases_per_round, terms.rounds_per_day
            )
            if PRODUCTS[kind]:
                book.count_bare(data, accounted(scenario))
        if kind == CODES:
            book.admit_encoder(data, digest(received(message)), terms.encoders)
    try:
        check_work(terms, scenario, message, context)
    except Refused:
        raise
    except BadInput as error:  # it may hold counts of the data
        raise BadData(f"The data cannot be divided as asked: {error}") from error
    return call_next(message, context)


def announced_round(scenario: Scenario, message: Message) -> int:
    """The round of a message; Refused for one after the last of the run."""
    found, last = round_of(message), scenario.federation.rounds
    if found > last:
        raise Refused(f"The message is of round {found}, and the run has {last} rounds.")
    return found


def division_of(scenario: Scenario, own: Mapping[str, Any]) -> str:
    """All settings that decide which samples a client uses; those without effect are left out."""
    data, federation = scenario.data, scenario.federation
    count = int(own.get("num-partitions", federation.clients))
    facts: dict[str, Any] = {"limit": data.limit, "holdout": scenario.training.holdout}
    wanted = scenario.representation
    if wanted is not None and is_vertical(scenario):
        facts |= {"parties": wanted.parties, "missing": wanted.missing}
        facts |= {"spared": wanted.curious_samples}
    if wanted is not None and federation.clients != count:
        facts["clients"] = federation.clients  # codes are of a share of so many
    if scenario.training.holdout:
        facts["by-number"] = accounted(scenario)  # see `own_split`
    if count > 1 or len(facts) > 2:
        facts |= {"count": count, "partition": data.partition}
        facts |= {"alpha": data.alpha} if data.partition == "dirichlet" else {}
        facts |= {"shards": data.shards_per_client} if data.partition == "shards" else {}
    if len(facts) > 2 or data.limit is not None:
        facts["seed"] = scenario.seed
    return json.dumps(facts, sort_keys=True)


def check_bytes(terms: Terms, message: Message) -> None:
    """Refused for arrays that are larger than any model the terms allow, before one is decoded."""
    if message.metadata.message_type == POOL or not message.has_content():
        return
    records = message.content.array_records.values()
    size = sum(len(array.data) for record in records for array in record.values())
    if size > 8 * terms.parameters + 2**20:
        raise too_large(terms)


def check_work(terms: Terms, scenario: Scenario, message: Message, context: Context) -> None:
    """Refused for too few or too many samples, too many steps or too large a model."""
    kind = message.metadata.message_type
    if kind == POOL:
        wanted, rows = settings(scenario), len(received(message)["z"])
        check_steps(terms, wanted.task_epochs * ceil(rows / wanted.batch_size))
        return
    party, share = share_of(scenario, context)
    trained, held = own_split(scenario, share)
    if PRODUCTS.get(kind) == "codes":
        check_code(terms, scenario, party)
        count = len(holding_of(scenario, party).ids)
        wanted = settings(scenario)
        epochs = max(wanted.encoder_epochs, wanted.decoder_epochs)
        steps = epochs * ceil(count / wanted.batch_size)
    else:
        count = len(held if kind == MessageType.EVALUATE else trained)
        steps = (
            scenario.training.steps_for(count) if PRODUCTS.get(kind) == "update" and count else 0
        )
    if kind != MessageType.QUERY and PRODUCTS[kind] != "codes":
        check_model(terms, scenario)
    if accounted(scenario):
        return  # ε protects each of few samples too, and how many there are is secret
    low, high = terms.samples
    if not low <= count <= high:
        raise Refused(
            f"The message is about fewer than {low} or more than {high} samples of this client, "
            "which its terms do not allow (`samples`)."
        )
    check_steps(terms, steps)


def check_model(terms: Terms, scenario: Scenario) -> None:
    """Refused for a model of too many parameters; it is built without memory for them."""
    if not MODELS.ours(scenario.model.name):
        return  # its owner listed it under `imports`, or installed it
    options = {k: v for k, v in scenario.model.options.items() if k != "batchnorm"}
    with torch.device("meta"):
        model = MODELS.build(scenario.model.name, options, **dataset_of(scenario).dimensions)
    if sum(value.numel() for value in model.state_dict().values()) > terms.parameters:
        raise too_large(terms)


def check_code(terms: Terms, scenario: Scenario, party: int) -> None:
    """Refused for codes, or encoders, that are too large; built without memory for them."""
    with torch.device("meta"):
        coder = coder_of(scenario, party)
        layer = coder.checked(settings(scenario).layer)
        encoder, code = coder.encoder(layer), coder.code(layer)
    if layer == INPUT and INPUT not in terms.layers:
        raise Refused(f"This client shares no codes of the layer '{INPUT}'.")
    if torch.Size(code).numel() > terms.code_size:
        raise Refused(
            f"This client's codes have at most {terms.code_size} values a sample (`code-size`)."
        )
    if sum(value.numel() for value in encoder.state_dict().values()) > terms.parameters:
        raise too_large(terms)


def too_large(terms: Terms) -> Refused:
    return Refused(
        f"The model has more than the {terms.parameters} parameters that this client's terms "
        "allow (`parameters`)."
    )
