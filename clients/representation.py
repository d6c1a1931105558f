"""Sharing codes, on a client: train an encoder, share codes, learn from a pool (ARS sect. 3.3)."""

from collections.abc import Mapping
from dataclasses import replace

from flwr.app import Context
from torch import Tensor, nn

from fedpriv.clients.catalogue import plugin_of
from fedpriv.clients.job import Job, make_job
from fedpriv.clients.plugin import PrivacyPlugin
from fedpriv.clients.protection.releases import once
from fedpriv.clients.protection.secret import secrets_of
from fedpriv.clients.truth import keep_networks, truth_folder, truth_of_codes
from fedpriv.codes.decoding import fit_decoder
from fedpriv.codes.parties import settings, task_labels
from fedpriv.codes.pool import learn
from fedpriv.codes.release import Shared
from fedpriv.device import device_of, moved
from fedpriv.errors import BadInput
from fedpriv.scenario import Scenario
from fedpriv.scenario.built import loaded
from fedpriv.state import State, digest, state_of
from fedpriv.training import outputs
from fedpriv.wire import EXAMPLES

Answer = tuple[State, dict[str, float]]  # what is shared, and figures beside it


def autoencoded(encoder: nn.Module, job: Job) -> nn.Module:
    """The encoder half of an autoencoder of the party's own samples (ARS eq. 5)."""
    chosen, decoder = job.sharing.chosen, job.sharing.decoder()
    if not list(encoder.parameters()):
        return encoder
    fit_decoder(
        nn.Sequential(encoder, decoder),
        job.x,
        job.x,
        draw=job.draws("autoencoder"),
        epochs=chosen.encoder_epochs,
        batch=chosen.batch_size,
        lr=chosen.lr,
    )
    return encoder


def trained_encoder(job: Job, plugin: PrivacyPlugin) -> nn.Module:
    """The encoder as plugins train it, or an autoencoder's when they leave it as it was."""
    encoder = plugin.on_encoder(job.shared, job)
    if digest(state_of(encoder)) == digest(job.start):
        encoder = autoencoded(encoder, job)
    return encoder.eval()


def publish_encoder(scenario: Scenario, server_round: int, context: Context) -> Answer:
    """An initiator's encoder, and how many samples it was trained on."""
    job = make_job(scenario, None, server_round, context)
    plugin = plugin_of(scenario.plugins)

    def encoder() -> State:
        trained = state_of(trained_encoder(job, plugin))
        if folder := truth_folder(scenario, server_round, context):
            keep_networks(job, folder)
        return trained

    return once(job, "encoder", encoder), figures(job)


def share_codes(
    scenario: Scenario, encoder: Mapping[str, Tensor], server_round: int, context: Context
) -> Answer:
    """Codes of a party's samples and their labels, through its plugins; no samples (ARS alg. 1)."""
    job = make_job(scenario, None, server_round, context)
    try:
        network = loaded(job.shared, encoder).eval()
    except RuntimeError as error:
        raise BadInput(f"The encoder does not fit this party's: {error}") from error
    plugin = plugin_of(scenario.plugins)

    def codes() -> State:
        return released(network, job, plugin, context).state()

    return once(job, f"codes-{digest(state_of(network))}", codes), figures(job)


def share_columns(scenario: Scenario, server_round: int, context: Context) -> Answer:
    """Codes of a party's columns by its own encoder, with the ids of the rows (ARS sect. 4.4.2)."""
    job = make_job(scenario, None, server_round, context)
    plugin = plugin_of(scenario.plugins)

    def columns() -> State:
        network = trained_encoder(job, plugin)
        weights = state_of(network) if job.sharing.chosen.publish_encoders else None
        codes = released(network, job, plugin, context)
        return replace(codes, ids=job.indices, encoder=weights).state()

    return once(job, "columns", columns), figures(job)


def released(encoder: nn.Module, job: Job, plugin: PrivacyPlugin, context: Context) -> Shared:
    """Codes of training and test samples as they leave the client; the truth, if kept, stays."""
    held = job.sharing.held
    z = plugin.on_representation(outputs(encoder, job.x), job.x, job)
    test = plugin.on_representation(outputs(encoder, held.x_test), held.x_test, job)
    folder = truth_folder(job.scenario, job.round, context)
    if folder:
        truth_of_codes(job).save(folder)
    return Shared(z.cpu(), test.cpu(), held.test_ids, job.sharing.y)


def figures(job: Job) -> dict[str, float]:
    return {EXAMPLES: len(job.x), **job.report}


def learn_pool(
    scenario: Scenario, pool: Mapping[str, Tensor], context: Context
) -> dict[str, float]:
    """How well a party's own classifiers, trained on the pool, read test codes (ARS sect. 3.3)."""
    chosen, secret = settings(scenario), secrets_of(context)
    _, sizes = task_labels(scenario)
    pool = moved(pool, device_of(scenario.federation.device))
    secret.layers("pool")()
    found: dict[str, float] = {EXAMPLES: float(len(pool["z"]))}
    for number, task in enumerate(chosen.tasks):
        draw = secret.fresh("pool", task)
        model = learn(pool["z"], pool["y"][:, number], sizes[number], chosen, draw=draw)
        guess = outputs(model, pool["test"]).argmax(dim=1)
        found[f"accuracy-{task}"] = float((guess == pool["test-y"][:, number]).double().mean())
    return found
