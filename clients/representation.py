"""Representation sharing on a client: train an encoder, share codes, learn from the pool (ARS sect. 3.3)."""

from collections.abc import Mapping

import torch
from flwr.app import Context
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from fedpriv.clients.catalogue import plugin_of
from fedpriv.clients.job import Job, optimiser_of, share_of, shuffled
from fedpriv.clients.plugin import Chain, PrivacyPlugin
from fedpriv.clients.protection.secret import secret_of
from fedpriv.clients.sharing import SHARING, Sharing, sharing_in
from fedpriv.codes.coders import classifier
from fedpriv.codes.decoding import fit_decoder
from fedpriv.codes.parties import Holding, coder_of, holding_of, is_vertical, settings, task_labels
from fedpriv.codes.release import Shared
from fedpriv.errors import BadInput
from fedpriv.rng import generator, seed_of
from fedpriv.scenario import Scenario
from fedpriv.scenario.built import device_of, loaded, seed_everything
from fedpriv.state import State, state_of
from fedpriv.training import fit, outputs
from fedpriv.wire import Memory


def code_job(scenario: Scenario, server_round: int, context: Context) -> tuple[Job, Holding]:
    """The job of a party, its untrained encoder as the public model, and what it holds."""
    party, _ = share_of(scenario, context)
    chosen, held = settings(scenario), holding_of(scenario, party)
    y, sizes = task_labels(scenario)
    labelled = not is_vertical(scenario) or party == chosen.label_party
    sharing = Sharing(coder_of(scenario, party), chosen, sizes, y[held.ids] if labelled else None)
    secret, device = secret_of(context), device_of(scenario.federation.device)
    seed_everything(seed_of(secret, "round", server_round, "layers"))
    encoder = sharing.encoder()
    model = nn.Sequential(encoder, sharing.classifier())
    job = Job(
        scenario=scenario,
        shared=encoder,
        start=state_of(encoder),
        model=model,
        loss=cross_entropy,
        optimiser=optimiser_of(scenario.training, model.parameters(), server_round),
        x=held.x.to(device),
        y=sharing.y[:, 0] if sharing.y is not None else torch.zeros(0, dtype=torch.long),
        indices=held.ids,
        memory=Memory(context.state),
        partition=party,
        round=server_round,
        secret=secret,
        device=device,
        batches=shuffled,
        kept={SHARING: sharing},
    )
    return job, held


def trains_encoders(plugin: PrivacyPlugin) -> bool:
    """Whether a plugin, or one of a chain, trains the encoder itself."""
    parts = plugin.plugins if isinstance(plugin, Chain) else (plugin,)
    return any(type(part).on_encoder is not PrivacyPlugin.on_encoder for part in parts)


def autoencoded(encoder: nn.Module, job: Job) -> nn.Module:
    """The encoder half of an autoencoder of the party's own samples (ARS eq. 5)."""
    sharing = sharing_in(job)
    chosen, decoder = sharing.chosen, sharing.decoder()
    if not list(encoder.parameters()):
        return encoder
    fit_decoder(
        nn.Sequential(encoder, decoder),
        job.x,
        job.x,
        draw=job.generator("autoencoder"),
        epochs=chosen.encoder_epochs,
        batch=chosen.batch_size,
        lr=chosen.lr,
    )
    return encoder


def trained_encoder(job: Job, plugin: PrivacyPlugin) -> nn.Module:
    """The encoder as plugins train it, or an autoencoder's when none does."""
    encoder = job.shared
    if not trains_encoders(plugin):
        encoder = autoencoded(encoder, job)
    return plugin.on_encoder(encoder, job).eval()


def publish_encoder(scenario: Scenario, server_round: int, context: Context) -> tuple[State, dict]:
    """An initiator's encoder, and how many samples it was trained on."""
    job, _ = code_job(scenario, server_round, context)
    encoder = trained_encoder(job, plugin_of(scenario.plugins))
    return state_of(encoder), {"num-examples": len(job.x), **job.report}


def share_codes(
    scenario: Scenario, encoder: Mapping[str, Tensor], server_round: int, context: Context
) -> tuple[State, dict]:
    """Codes of a party's samples and labels, through its plugins (ARS alg. 1); never the samples."""
    job, held = code_job(scenario, server_round, context)
    try:
        network = loaded(job.shared, encoder).eval()
    except RuntimeError as error:
        raise BadInput(f"The encoder does not fit this party's: {error}") from error
    shared = released(network, job, held, plugin_of(scenario.plugins))
    return shared.state(), {"num-examples": len(held.x), **job.report}


def share_columns(scenario: Scenario, server_round: int, context: Context) -> tuple[State, dict]:
    """Codes of a party's columns by its own encoder, with the ids of the rows (ARS sect. 4.4.2)."""
    job, held = code_job(scenario, server_round, context)
    plugin = plugin_of(scenario.plugins)
    network = trained_encoder(job, plugin)
    shared = released(network, job, held, plugin)
    weights = state_of(network) if settings(scenario).publish_encoders else None
    columns = Shared(shared.z, shared.test, shared.test_ids, shared.y, held.ids, weights)
    return columns.state(), {"num-examples": len(held.x), **job.report}


def released(encoder: nn.Module, job: Job, held: Holding, plugin: PrivacyPlugin) -> Shared:
    """Codes of training and test samples as they leave the client."""
    z = plugin.on_representation(outputs(encoder, job.x), job.x, job)
    test = plugin.on_representation(outputs(encoder, held.x_test), held.x_test, job)
    return Shared(z.cpu(), test.cpu(), held.test_ids, sharing_in(job).y)


def learn_pool(
    scenario: Scenario, pool: Mapping[str, Tensor], context: Context
) -> dict[str, float]:
    """What a party's own classifiers, trained on the pool, say of test codes (ARS sect. 3.3)."""
    chosen = settings(scenario)
    _, sizes = task_labels(scenario)
    secret = secret_of(context)
    seed_everything(seed_of(secret, "pool"))
    found: dict[str, float] = {"num-examples": float(len(pool["z"]))}
    for number, task in enumerate(chosen.tasks):
        model = classifier(tuple(pool["z"].shape[1:]), sizes[number])
        fit(
            model,
            pool["z"],
            pool["y"][:, number],
            draw=generator(secret, "pool", task),
            epochs=chosen.task_epochs,
            batch=chosen.batch_size,
            lr=chosen.lr,
        )
        guess = outputs(model, pool["test"]).argmax(dim=1)
        found[f"accuracy-{task}"] = float((guess == pool["test-y"][:, number]).double().mean())
    return found
