"""What a client's training really does, noted from outside by torch's own global hooks.

Nothing in the client's code changes. Every forward call, loss and optimiser step passes by here.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.modules.dropout import _DropoutNd
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.optim.optimizer import (
    Optimizer,
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)
from torch.overrides import TorchFunctionMode

from fedpriv.clients.rescaling import factor_of

LOSSES = {
    functional.cross_entropy: "cross-entropy",
    functional.nll_loss: "nll",
    functional.binary_cross_entropy: "bce",
    functional.binary_cross_entropy_with_logits: "bce-with-logits",
    functional.mse_loss: "mse",
    functional.l1_loss: "l1",
    functional.smooth_l1_loss: "smooth-l1",
    functional.huber_loss: "huber",
    functional.kl_div: "kl",
    functional.ctc_loss: "ctc",
}
MOST_HELD = 4000  # evaluated samples that are kept


@dataclass(eq=False)
class Call:
    """A forward call of a model that nothing else called.

    Where a model is called part by part, each on what the one before gave, it is one call of them
    all: `chain` has the parts with the shapes that they take.
    """

    chain: list[tuple[nn.Module, tuple[int, ...]]]
    x: Tensor
    training: bool
    learns: bool  # whether gradients were wanted
    output: Tensor | None = None

    @property
    def modules(self) -> list[nn.Module]:
        return [module for module, _ in self.chain]


@dataclass(eq=False)
class Loss:
    """A call of a loss function."""

    name: str
    outputs: int
    target: Tensor
    scaled: str  # what makes it another function than the plain mean
    learns: bool


@dataclass(eq=False)
class Notes:
    """What one message made a client do, step by step."""

    optimiser: str | None = None
    options: dict[str, Any] = field(default_factory=dict)
    rates: list[float] = field(default_factory=list)
    x: list[Tensor] = field(default_factory=list)  # the samples of each step
    y: list[Tensor] = field(default_factory=list)
    losses: set[str] = field(default_factory=set)
    scaled: set[str] = field(default_factory=set)
    outputs: set[int] = field(default_factory=set)
    training: set[bool] = field(default_factory=set)
    dropout: float = 0.0
    chain: list[tuple[nn.Module, tuple[int, ...]]] = field(default_factory=list)  # the model
    parts: set[str] = field(default_factory=set)  # classes of models that are trained side by side
    itself: bool = True  # whether every target is the input itself
    factor: float = 1.0  # of the first step's gradients, against those of its plain mean loss
    pieces: int = 1  # batches whose gradients are added up before a step
    tokens: bool = False  # whether whole numbers entered the model, as text does

    @property
    def model(self) -> nn.Module | None:
        """The model that was trained; its first part where it is called part by part."""
        return self.chain[0][0] if self.chain else None

    @property
    def steps(self) -> int:
        return len(self.rates)

    @property
    def sizes(self) -> list[int]:
        """How many samples each step took."""
        return [len(x) for x in self.x]


class Eyes:
    """Notes what happens between `with`; `current` is of the message that is being answered."""

    def __init__(self) -> None:
        self.current: Notes | None = None
        self.normalised: set[tuple[tuple[float, ...], tuple[float, ...]]] = set()
        self.random: set[str] = set()  # transformations that change samples at random
        self.held: list[tuple[Tensor, Tensor]] = []  # batches that were evaluated, with labels
        self._count = 0
        self._depth = 0
        self._away = False
        self._trained: set[bytes] = set()  # samples of the message that is being answered
        self._calls: list[Call] = []
        self._losses: list[Loss] = []
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        before = register_module_forward_pre_hook(self._before)
        after = register_module_forward_hook(self._after, always_call=True)
        stepping = register_optimizer_step_pre_hook(self._stepping)
        stepped = register_optimizer_step_post_hook(self._stepped)
        for handle in (before, after, stepping, stepped):
            self._stack.callback(handle.remove)
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    @contextmanager
    def noting(self) -> Iterator[Notes]:
        """The notes of one message, in the thread that answers it."""
        self.current = notes = Notes()
        self._calls.clear()
        self._losses.clear()
        self._trained.clear()
        try:
            with _LossMode(self):
                yield notes
        finally:
            self.current = None

    def _before(self, module: nn.Module, arguments: tuple[Any, ...]) -> None:
        if self._away:
            return
        top, self._depth = self._depth == 0, self._depth + 1
        if is_transform(module):
            self._transformed(module)
        elif top and next(module.parameters(), None) is not None and arguments:
            self._called(module, arguments[0])

    def _after(self, module: nn.Module, arguments: tuple[Any, ...], result: Any) -> None:
        if self._away:
            return
        self._depth = max(0, self._depth - 1)
        last = self._calls[-1] if self._calls and not self._depth else None
        if last is not None and last.modules[-1] is module and isinstance(result, Tensor):
            last.output = result.detach()

    def _transformed(self, module: nn.Module) -> None:
        name = type(module).__name__
        if name == "Normalize":
            mean, std = (tuple(map(float, getattr(module, key))) for key in ("mean", "std"))
            self.normalised.add((mean, std))
        elif name.startswith("Random") or name in ("ColorJitter", "AutoAugment", "TrivialAugment"):
            self.random.add(name)

    def _called(self, module: nn.Module, x: Any) -> None:
        if not isinstance(x, Tensor):
            return
        if not x.is_floating_point():
            if self.current is not None and torch.is_grad_enabled():
                self.current.tokens = True
            return
        part = (module, tuple(x.shape[1:]))
        last = self._calls[-1] if self._calls else None
        if last is not None and last.output is not None and is_same(last.output, x):
            last.chain.append(part)
            last.output = None
            return
        call = Call([part], x.detach(), module.training, torch.is_grad_enabled())
        if not call.learns:  # evaluation: only the last call can still meet its loss
            self._calls = [one for one in self._calls if one.learns]
        self._calls.append(call)

    def lost(self, loss: Loss) -> None:
        """A loss was computed: of a step to come, or of an evaluation."""
        if self._away:
            return
        if loss.learns:
            self._losses.append(loss)
        elif self._calls and not self._calls[-1].learns and self._count < MOST_HELD:
            x, y = self._calls.pop().x.cpu(), loss.target.cpu()
            if len(x) == len(y):
                fresh = [i for i, one in enumerate(x) if one.numpy().tobytes() not in self._trained]
                if fresh:  # a client may evaluate what it trained on, too
                    self.held.append((x[fresh], y[fresh]))
                    self._count += len(fresh)

    def _stepping(self, optimizer: Optimizer, arguments: Any, named: Any) -> None:
        """Measure the gradients of a message's first step."""
        calls, losses = [one for one in self._calls if one.learns], self._losses
        if self.current is None or self.current.rates or not calls or len(calls) != len(losses):
            return
        if {loss.name for loss in losses} != {losses[0].name}:
            return
        x, y = torch.cat([one.x for one in calls]), torch.cat([loss.target for loss in losses])
        self._away = True
        try:
            self.current.factor = factor_of(calls[0].chain, x, y, losses[0].name)
        finally:
            self._away = False

    def _stepped(self, optimizer: Optimizer, arguments: Any, named: Any) -> None:
        calls, losses = [one for one in self._calls if one.learns], self._losses
        self._calls, self._losses = [], []
        if self.current is None:
            return
        owned = {id(p) for group in optimizer.param_groups for p in group["params"]}
        calls = [
            one
            for one in calls
            if any(id(p) in owned for module in one.modules for p in module.parameters())
        ]
        notes, options = self.current, optimizer.param_groups[0]
        notes.optimiser = type(optimizer).__name__.lower()
        plain = (bool, int, float, tuple)
        notes.options = {k: v for k, v in options.items() if isinstance(v, plain)}
        notes.rates.append(float(options["lr"]))
        if not calls:
            return
        first = calls[0]
        same = [one for one in calls if one.modules == first.modules]
        if len(same) < len(calls):
            notes.parts |= {type(one.modules[0]).__name__ for one in calls}
        notes.chain = [(unwrapped(module), shape) for module, shape in first.chain]
        notes.pieces = max(notes.pieces, len(same))
        notes.training |= {one.training for one in calls}
        notes.dropout = max([notes.dropout, *dropout_of(first)])
        x = torch.cat([one.x for one in same]).cpu()
        notes.x.append(x)
        self._trained |= {one.numpy().tobytes() for one in x}
        notes.losses |= {loss.name for loss in losses}
        notes.scaled |= {loss.scaled for loss in losses if loss.scaled}
        notes.outputs |= {loss.outputs for loss in losses}
        if losses:
            y = torch.cat([loss.target for loss in losses]).cpu()
            notes.y.append(y)
            notes.itself &= y.numel() == x.numel() and torch.equal(y.flatten(), x.flatten())


class _LossMode(TorchFunctionMode):
    """Sees every call of a torch function; tells of losses and changes none."""

    def __init__(self, eyes: Eyes) -> None:
        super().__init__()
        self.eyes = eyes

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        named = kwargs or {}
        if func in LOSSES:
            given = [*args, *(named[key] for key in ("input", "target") if key in named)]
            if len(given) > 1 and isinstance(given[1], Tensor):
                outputs, target = given[0], given[1].detach()
                width = outputs.shape[1] if outputs.dim() > 1 else 1
                scaled = scaling(named)
                self.eyes.lost(Loss(LOSSES[func], width, target, scaled, torch.is_grad_enabled()))
        return func(*args, **named)


def scaling(named: dict[str, Any]) -> str:
    """What makes a loss another function than the plain mean over samples."""
    if named.get("reduction", "mean") != "mean":
        return f"reduction '{named['reduction']}'"
    if named.get("label_smoothing"):
        return f"label smoothing {named['label_smoothing']:g}"
    return "class weights" if named.get("weight") is not None else ""


def is_transform(module: nn.Module) -> bool:
    return type(module).__module__.startswith("torchvision.transforms")


def unwrapped(module: nn.Module) -> nn.Module:
    """The model itself, where Opacus or DataParallel wrapped it."""
    for name in ("_module", "module"):
        inner = getattr(module, name, None)
        if isinstance(inner, nn.Module) and len(list(module.children())) == 1:
            return unwrapped(inner)
    return module


def is_same(one: Tensor, other: Tensor) -> bool:
    """Whether two tensors are the same numbers in memory, perhaps in another shape."""
    return one.data_ptr() == other.data_ptr() and one.numel() == other.numel()


def dropout_of(call: Call) -> Iterator[float]:
    for part in call.modules:
        for module in part.modules():
            if isinstance(module, _DropoutNd) and module.training:
                yield module.p
