"""CODE_ATTACKS: attacks on shared codes, by the names people type."""

from collections.abc import Callable
from functools import partial

from fedpriv.attacks.codes.attributes import AttributeAttack, FeatureAttack
from fedpriv.attacks.codes.decoder import DecoderAttack, TakeAsIs
from fedpriv.attacks.codes.knowledge import Decoded, Knowledge
from fedpriv.attacks.codes.masks import MaskOverlap, MaskReading, MaskSearch
from fedpriv.registry import Entry, Registry

CodeAttack = Callable[[Knowledge], Decoded]

CODE_ATTACKS: Registry[CodeAttack] = Registry(
    "attack on codes",
    "code-attacks",
    {
        "decoder": Entry(
            partial(DecoderAttack, codes="clean"), "decoder of clean codes", "ARS eq. 8"
        ),
        "adversarial-decoder": Entry(
            partial(DecoderAttack, codes="noisy"), "decoder of own noisy codes", "ARS eq. 11"
        ),
        "even-decoder": Entry(
            partial(DecoderAttack, even=True), "decoder of standardised codes", "ours"
        ),
        "large-decoder": Entry(
            partial(DecoderAttack, width=2, longer=2), "twice as wide, twice as long", "RAN 3.1"
        ),
        "gan-decoder": Entry(
            partial(DecoderAttack, mu1=0.01, mu2=0.1), "GAN and perceptual losses", "ARL eq. 5"
        ),
        "mask-reading": Entry(MaskReading, "reads masks off the codes, then decodes", "ours"),
        "mask-search": Entry(MaskSearch, "tries random masks", "ARS sect. 6.1"),
        "mask-overlap": Entry(MaskOverlap, "analysis: masks known in part", "ARS table 6"),
        "attribute": Entry(AttributeAttack, "classifier of a private attribute", "ARS eq. 13"),
        "features": Entry(FeatureAttack, "codes to identity features", "ARL eq. 10"),
        "take-as-is": Entry(TakeAsIs, "noisy raw data as they are", "RAN sect. 3.1"),
    },
)
