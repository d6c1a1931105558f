"""A server that wants a real client's secrets: it scans seeds, repeats rounds, starts new runs."""

import numpy as np
import pytest
import torch
from messages import context_of
from torch.utils._python_dispatch import TorchDispatchMode
from worlds import CODES, UPDATES

from fedpriv.cipher import CipherDraws
from fedpriv.clients.app import trained
from fedpriv.clients.catalogue import PLUGINS, row_of
from fedpriv.clients.job import make_job
from fedpriv.clients.plugins.ars import mask_of
from fedpriv.clients.plugins.polarization import MEMORY, SecretHead, SecretPolarization
from fedpriv.clients.protection.secret import FromSystem, secrets_of, twister_state
from fedpriv.clients.representation import publish_encoder, share_codes
from fedpriv.rng import seed_of
from fedpriv.scenario import from_tables, merged
from fedpriv.scenario.built import first_state

pytestmark = pytest.mark.filterwarnings("ignore:Full backward hook")
NOISE = {"name": "noise", "scale": 1.0, "on": "update"}
DP = {"name": "dp", "noise-multiplier": 50.0, "samples": 32}


def world(*plugins, base=UPDATES, **sections):
    return from_tables(merged(base, {**sections, "plugins": list(plugins)}))


def real(scenario, run=1, state=None):
    """A real client; with the `state` of another context it is the same one in another run."""
    context = context_of(scenario, run=run, secret_seed=None)
    if state is not None:
        context.state = state
    return context


def released(scenario, context, start=None, server_round=1):
    """The first layer of an update as the server gets it."""
    start = first_state(scenario) if start is None else start
    _, update, _ = trained(scenario, start, server_round, context)
    return update["1.weight"].double().flatten()


def correlation(a, b):
    return float((a @ b) / (a.norm() * b.norm()))


@pytest.mark.parametrize("plugin", [NOISE, {**NOISE, "kind": "laplace"}, DP], ids=str)
def test_no_seed_of_torch_gives_the_noise(plugin, monkeypatch, chance_bound):
    """The scan of all seeds, in a world where torch keeps 10 bits of a seed instead of 32.

    The same scan finds the noise of a simulated client, which shows that it can.
    """
    bits = 10
    monkeypatch.setattr("fedpriv.rng.seed_of", lambda *names: seed_of(*names) % 2**bits)
    scenario = world(plugin, training={"lr": 1e-3})
    shape = first_state(scenario)["1.weight"].shape

    def candidates():
        for seed in range(2**bits):
            draw = torch.Generator().manual_seed(seed)
            if plugin.get("kind") == "laplace":
                u = torch.rand(shape, generator=draw, dtype=torch.float64) - 0.5
                yield (-u.sign() * torch.log1p(-2 * u.abs())).flatten()
            else:
                yield torch.randn(shape, generator=draw).double().flatten()

    def best(context):
        seen = released(scenario, context)
        return max(abs(correlation(seen, guess)) for guess in candidates())

    assert best(context_of(scenario)) > 0.99
    bound = chance_bound(shape.numel(), tests=2**bits)
    assert bound < 0.5
    # Laplace noise is not sub-Gaussian: the factor of 2 covers the spread of its norm and tail.
    assert best(real(scenario)) < 2 * bound < 0.9


class RandomOps(TorchDispatchMode):
    """Notes which random operations of torch were called on tensors that have values."""

    def __init__(self):
        super().__init__()
        self.seen = set()

    def __torch_dispatch__(self, op, types, args=(), kwargs=None):
        out = op(*args, **(kwargs or {}))
        if torch.Tag.nondeterministic_seeded in op.tags and out.device.type != "meta":
            self.seen.add(str(op))
        return out


@pytest.mark.parametrize("name", [n for n in PLUGINS if "update" in row_of(n).protects])
def test_a_real_client_draws_nothing_from_torch(name):
    plugin = {"name": name, **row_of(name).strong}
    scenario = world(plugin, model={"name": "mlp", "hidden": [16]}, training={"batch-size": 8})
    start = first_state(scenario)  # built beforehand: its first weights are public
    for context, found in ((real(scenario), False), (context_of(scenario), True)):
        with RandomOps() as ops:
            trained(scenario, start, 1, context)
        assert bool(ops.seen) == found, ops.seen


def test_every_bit_of_a_key_matters():
    key = bytes(range(32))
    flipped = [
        bytes(b ^ (1 << bit) * (i == place) for i, b in enumerate(key))
        for place in range(32)
        for bit in range(8)
    ]
    streams = {CipherDraws(k).words(4).tobytes() for k in [key, *flipped]}
    assert len(streams) == 257
    assert CipherDraws(key).words(4).tobytes() in streams


def test_layers_draw_from_a_state_that_no_seed_reaches():
    """After a seed s, word i + 1 of torch's twister follows from word i, and word 0 is s."""

    def words():
        state = torch.default_generator.get_state()
        return state.view(torch.int64)[3 : 3 + 624].numpy().astype(np.uint64)

    def seeded(found):
        after = (1812433253 * (found[:-1] ^ (found[:-1] >> np.uint64(30)))) + np.arange(
            1, 624, dtype=np.uint64
        )
        return float(((after & np.uint64(0xFFFFFFFF)) == found[1:]).mean())

    torch.manual_seed(7)
    assert seeded(words()) == 1
    scenario, states = world(), []
    for _ in range(2):
        job = make_job(scenario, first_state(scenario), 1, real(scenario))
        states.append(words())
        assert seeded(states[-1]) < 0.1
        job.seed_layers()  # as the truth does, to repeat what dropout did
        assert (words() == states[-1]).all()
    assert (states[0] != states[1]).mean() > 0.9


def test_torch_twists_the_whole_state_it_is_given():
    own = np.random.MT19937(5)
    key = own.state["state"]["key"]
    own.state = {"bit_generator": "MT19937", "state": {"key": key, "pos": 624}}
    torchs = torch.Generator()
    torchs.set_state(twister_state(key.astype(np.uint64)))
    found = torch.randint(2**31, (1000,), generator=torchs)  # of two words it uses the second
    assert (found.numpy() == own.random_raw(2000)[1::2] % 2**31).all()


@pytest.mark.parametrize("plugin", [DP, NOISE], ids=["dp", "noise"])
def test_two_releases_of_a_round_are_independent(plugin, chance_bound):
    """One round, one model, two batch sizes, 200 pairs: no pair has noise in common."""
    pair = [
        world(plugin, training={"lr": 1e-3, "batch-size": size, "local-steps": 1})
        for size in (16, 20)
    ]

    def together(context_for):
        return correlation(*(released(scenario, context_for(scenario)) for scenario in pair))

    assert together(context_of) > 0.99  # a simulation repeats itself, and would be undone
    contexts = [real(pair[0]) for _ in range(4)]  # a client keeps its memory

    def asked_again(number):
        def context(scenario):
            found = contexts[number % 4]
            found.run_config = {"scenario": scenario.text()}
            return found

        return context

    found = torch.tensor([together(asked_again(i)) for i in range(200)])
    size = first_state(pair[0])["1.weight"].numel()
    slack = 1.1  # for the sample's small part in a release, and norms that are not exactly √n
    assert found.abs().max() < slack * chance_bound(size, tests=200)
    assert found.mean().abs() < slack * chance_bound(200 * size)


def test_batches_and_their_order_are_fresh():
    scenario = world({**DP, "noise-multiplier": 1.0}, training={"batch-size": 8})
    context, start = real(scenario), first_state(scenario)
    for kind in ("poisson", "batches"):
        drawn = {
            make_job(scenario, start, 1, context).draws(kind).permutation(32).numpy().tobytes()
            for _ in range(20)
        }
        assert len(drawn) == 20


def flat(scenario):
    """A model whose features are the same for every sample, and whose public head says nothing."""
    start = {name: torch.zeros_like(value) for name, value in first_state(scenario).items()}
    start["1.bias"] = torch.linspace(0.01, 0.02, len(start["1.bias"]))
    return start


def secret_sum(scenario, context):
    """What the server learns from `flat`: the head's rows, added up with the signs of codes."""
    _, update, _ = trained(scenario, flat(scenario), 1, context)
    return -update["1.bias"].double()


def test_a_new_run_has_another_head_and_a_replay_shows_no_new_row(chance_bound):
    spn = {"name": "spn", "alpha2": 1.0, "width": 0.01}
    hidden = 2048
    scenario = world(
        spn,
        model={"name": "mlp", "hidden": [hidden]},
        training={"lr": 0.1, "batch-size": 64, "local-steps": 1},
    )
    context = real(scenario)
    first = secret_sum(scenario, context)
    assert first.norm() > 0
    again = secret_sum(scenario, context)
    # The head has moved along the features since. The server chose those itself.
    sent = flat(scenario)["1.bias"].double()
    moved = again - first
    aside = moved - (moved @ sent) / (sent @ sent) * sent
    assert aside.norm() < 1e-3 * first.norm()
    others = [secret_sum(scenario, real(scenario, run, context.state)) for run in range(2, 12)]
    found = [abs(correlation(first, other)) for other in others]
    assert max(found) < 1.2 * chance_bound(hidden, tests=10) < 0.5


def test_head_codes_and_mask_are_those_of_the_run():
    scenario, plugin = world({"name": "spn"}), SecretPolarization()

    def kept(context):
        job = plugin.on_setup(make_job(scenario, first_state(scenario), 1, context))
        plugin.on_update({}, job)
        head = job.kept(SecretHead)
        return head.head.weight.detach().clone(), head.codes, mask_of(job.secret, (64,), 0.5)

    one = real(scenario)
    other = real(scenario, 2, one.state)
    first, second, new = kept(one), kept(one), kept(other)
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))
    assert not any(torch.equal(a, b) for a, b in zip(first, new, strict=True))
    back = real(scenario, 1, one.state)  # the first run again: its key is still known
    del back.state["fedpriv." + MEMORY]
    assert all(torch.equal(a, b) for a, b in zip(first, kept(back), strict=True))


def test_a_client_without_memory_shares_no_key_with_another():
    scenario = world()
    keys = {secrets_of(real(scenario)).key_of_run() for _ in range(3)}
    assert len(keys) == 3 and {len(key) for key in keys} == {32}
    assert isinstance(secrets_of(real(scenario)), FromSystem)


def test_noise_on_codes_cannot_be_averaged_away():
    scenario = world({"name": "noisy", "scale": 1.0}, base=CODES)
    encoder, _ = publish_encoder(scenario, 1, context_of(scenario))
    clean = share_codes(world(base=CODES), encoder, 1, context_of(scenario))[0]["z"]
    context = real(scenario)
    asked = [share_codes(scenario, encoder, r, context)[0] for r in (1, 1, 2, 3)]
    assert all(torch.equal(asked[0][key], one[key]) for one in asked for key in asked[0])
    assert (asked[0]["z"] - clean).abs().mean() > 0.5
    other = share_codes(scenario, encoder, 1, real(scenario, 2, context.state))[0]
    assert not torch.equal(other["z"], asked[0]["z"])


def test_a_client_publishes_one_encoder_in_a_run():
    scenario = world(base=CODES)
    context = real(scenario)
    first, again = (publish_encoder(scenario, r, context)[0] for r in (1, 2))
    other, _ = publish_encoder(scenario, 1, real(scenario, 2, context.state))
    assert all(torch.equal(first[key], again[key]) for key in first)
    assert any(not torch.equal(first[key], other[key]) for key in first)
