"""A mechanism as a black box: draw from neighbouring worlds, bound ε, and look for what has no
noise.

Pilot draws of every game choose the game, the score and the threshold. Only then are fresh draws
made and counted, so that the confidence is that of the few tests which are made on them.
"""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from scipy.stats import normaltest

from fedpriv.simulations.dp.bounds import (
    MOST_TESTED,
    Errors,
    gaussian_epsilon,
    gdp_shift,
    moment_shift,
    why_not_gaussian,
)
from fedpriv.simulations.dp.bounds import counted as counted_bound
from fedpriv.simulations.dp.findings import GAUSSIAN, NOTHING, Bound, Claim, Examination, Finding
from fedpriv.simulations.dp.noiseless import exact_parts, repeats, sizes
from fedpriv.simulations.dp.releases import FAILURES, Mechanism, Rows, drawn, is_number
from fedpriv.simulations.dp.scores import ROUNDING, Rule, best_counted, best_gaussian, candidates
from fedpriv.simulations.dp.worlds import (
    FEW,
    Game,
    Neighbours,
    Unit,
    World,
    many_updates,
    nothing,
    one_update,
)

PILOT = (60, 2000)  # fewest and most draws of each world of each game that choose the tests
PILOT_SHARE = 0.35  # of the time
LEAST = 300  # draws of each world that are counted, however long they take
CHUNK = 20_000
ENOUGH = 100  # draws from which the shape of the noise can be tested
LITTLE = 1e-6  # of the clip norm, instead of zero for mechanisms that fail on zeros
UNLIKELY = 1e-5  # a test whether entries are Gaussian that says so drops a bound, no more
TESTS = 3  # by counting, by GDP and by moments
Tell = Callable[[str], None]


@dataclass(frozen=True)
class Chosen:
    """What the pilot draws of a game recommend."""

    game: Game
    promised: tuple[float, float]  # the ε that the pilot draws hint at: by counting, if Gaussian
    layout: dict[str, int]
    entries: str | None  # why single entries have no Gaussian noise
    counting: Rule
    gaussian: Rule


def games_of(mechanism: Mechanism, clip: float, claim: Claim, zero: float) -> list[Game]:
    own = getattr(mechanism, "games", None)
    if own is not None:
        return list(own(claim))
    neighbours: Neighbours = "replace" if claim.neighbours == "replace" else "add-remove"
    unit: Unit = "sample" if claim.unit == "sample" else "client"
    if mechanism.takes == "update":
        return list(one_update(clip, unit, neighbours, zero))
    return list(many_updates(clip, neighbours, zero, fixed=mechanism.fixed))


def on_zeros(mechanism: Mechanism) -> Finding | None:
    """What happens to updates of zeros."""
    count = 1 if mechanism.takes == "update" else FEW + 1
    world = World(nothing(), tuple(nothing() for _ in range(count)), (1,) * count)
    try:
        rows = drawn(mechanism, [world], 2)
    except FAILURES as error:
        detail = f"{type(error).__name__}: {error}"
        return Finding("an update of zeros makes it fail", detail)
    if rows.values[:, -1].any():
        return Finding("an update of zeros gives NaN or infinity", "")
    return None


def examined(
    mechanism: Mechanism,
    claim: Claim,
    *,
    clip: float,
    seconds: float = 6.0,
    draws: int | None = None,
    public: Iterable[str] = (),
    tell: Tell = lambda line: None,
) -> Examination:
    """Everything that can be said against a claim in so many seconds, or with so many draws."""
    begun = time.monotonic()
    hidden, zero = frozenset(public), 0.0
    result = Examination(mechanism.name, claim, public=tuple(sorted(hidden)))
    failing = on_zeros(mechanism) if mechanism.takes != "samples" else None
    if failing is not None:
        result.findings.append(failing)
        zero = LITTLE
    chosen = []
    games = games_of(mechanism, clip, claim, zero)
    each = (
        int(np.clip(draws // 5, *PILOT))
        if draws
        else paced(mechanism, games[0], PILOT_SHARE * seconds / len(games))
    )
    for game in games:
        try:
            quiet, loud = both_worlds(mechanism, game, each, hidden)
        except FAILURES as error:
            result.left_out.append(f"{game.name}: {type(error).__name__}: {error}")
            continue
        result.draws += 2 * each
        tell(f"pilot: {game.name}")
        result.findings += [
            finding
            for look in (exact_parts, repeats, sizes)
            for finding in look(game, quiet, loud)
            if finding.cause not in {found.cause for found in result.findings}
        ]
        chosen.append(recommended(game, quiet, loud, claim))
    picked = _best(chosen)
    result.tests = TESTS * max(1, len(picked))
    left = max(0.5, seconds - (time.monotonic() - begun))
    for choice in picked:
        _test(mechanism, choice, claim, result, left / len(picked), draws, hidden)
        tell(f"tested: {choice.game.name}")
    result.seconds = time.monotonic() - begun
    return result


def both_worlds(
    mechanism: Mechanism, game: Game, count: int, public: frozenset[str]
) -> tuple[Rows, Rows]:
    """Draws of both worlds with the same columns; a mechanism that fails in both of them raises.

    One that fails in one world only shows by it which world it is.
    """
    sides = (game.quiet, game.loud)
    found: list[Rows | BaseException] = []
    for worlds in sides:
        try:
            found.append(drawn(mechanism, worlds, count, public, rounds=game.rounds))
        except FAILURES as error:
            found.append(error)
    rows = [one for one in found if isinstance(one, Rows)]
    if not rows:
        raise next(one for one in found if isinstance(one, BaseException))
    if len(rows) == 2 and rows[0].fields == rows[1].fields:
        return rows[0], rows[1]
    every = {name: size for one in rows for name, size in one.layout.items()}
    quiet, loud = (drawn(mechanism, worlds, count, public, every, game.rounds) for worlds in sides)
    return quiet, loud


def paced(mechanism: Mechanism, game: Game, seconds: float) -> int:
    """How many draws of both worlds of a game fit into the time."""
    try:
        drawn(mechanism, game.loud, 3)
        begun = time.monotonic()
        drawn(mechanism, game.loud, 10)
    except FAILURES:
        return PILOT[0]
    pace = max((time.monotonic() - begun) / 10, 1e-7)
    return int(min(PILOT[1], max(PILOT[0], seconds / pace / 2)))


def recommended(game: Game, quiet: Rows, loud: Rows, claim: Claim) -> Chosen:
    """The score and thresholds with the highest bounds on pilot draws.

    One half of the draws makes the scores and the other half ranks them: a score that was fitted
    to few draws looks best on those very draws.
    """
    half = len(quiet.values) // 2
    fit_quiet, fit_loud = (Rows(one.values[:half], one.fields) for one in (quiet, loud))
    entries = why_no_gaussian_entries(quiet)
    counting, gaussian = [], []
    for score in candidates(fit_quiet, fit_loud, game.canary):
        a, b = score.of(quiet.values[half:]), score.of(loud.values[half:])
        # Pilot draws rank; a loose level keeps the ranking from being all zeros.
        counting.append(best_counted(score, a, b, 0.1, claim.delta))
        fits = score.smooth and entries is None
        fits = fits and (len(a) < ENOUGH or why_not_gaussian(b, a) is None)
        shift = moment_shift(b, a, 0.1) if fits else 0.0
        gaussian.append((shift, best_gaussian(score, a, b, 0.1)[1]))
    first = max(counting, key=lambda pair: pair[0])
    second = max(gaussian, key=lambda pair: pair[0])
    promised = first[0], gaussian_epsilon(second[0], claim.delta)
    return Chosen(game, promised, quiet.layout, entries, first[1], second[1])


def why_no_gaussian_entries(rows: Rows) -> str | None:
    """Why the noise of single entries cannot be Gaussian; a sum of many entries always looks so."""
    plain = [part for name, part in rows.fields.items() if is_number(name)]
    values = np.concatenate([rows.values[:, part] for part in plain], axis=1)
    spread = values.std(0)
    noisy = spread > ROUNDING * np.abs(values).max(0)
    if not noisy.any():
        return None
    each = (values[:, noisy] - values[:, noisy].mean(0)) / spread[noisy]
    if normaltest(each.ravel()[:MOST_TESTED]).pvalue < UNLIKELY:
        return "entries of the release are not normal (skewness, kurtosis)"
    return None


def ends_with_the_draws(errors: Errors, epsilon: float, level: float, claim: Claim) -> bool:
    """Whether a bound by counting may be below the claim for lack of draws only.

    So many draws cannot prove the claim wrong even without a single error, and what they do prove
    is half of the most that they can.
    """
    most = counted_bound(Errors(0, errors.present, 0, errors.absent), level, claim.delta)
    return most <= claim.epsilon and epsilon > most / 2


def _best(chosen: list[Chosen]) -> list[Chosen]:
    """The games that promise most: by counting, and with Gaussian noise; often it is one.

    Two rounds take twice the time and have more noise, so that they must promise more than one.
    """

    def worth(one: Chosen, way: int) -> float:
        return one.promised[way] * (0.9 if len(one.game.quiet) > 1 else 1.0)

    most = [max(chosen, key=lambda one: worth(one, way)) for way in (0, 1) if chosen]
    return [one for at, one in enumerate(most) if one not in most[:at]]


def _test(
    mechanism: Mechanism,
    choice: Chosen,
    claim: Claim,
    result: Examination,
    seconds: float,
    draws: int | None,
    public: frozenset[str],
) -> None:
    """Fresh draws of one game, and the three bounds on them."""
    rules = (choice.counting, choice.gaussian)
    found: list[list[np.ndarray]] = [[], [], [], []]
    count, step, ends = 0, 50, time.monotonic() + seconds
    while (count < draws) if draws else (count < LEAST or time.monotonic() < ends):
        size = min(step, draws - count) if draws else step
        started = time.monotonic()
        for side, worlds in enumerate((choice.game.quiet, choice.game.loud)):
            rows = drawn(mechanism, worlds, size, public, choice.layout, choice.game.rounds)
            for place, rule in enumerate(rules):
                found[2 * place + side].append(rule.score.of(rows.values))
        count += size
        pace = (time.monotonic() - started) / size
        left = max(0.0, ends - time.monotonic())
        step = int(min(CHUNK, max(20, left / max(pace, 1e-9) / 2), 4 * size))
    result.draws += 2 * count
    level, name = result.level, choice.game.name
    # A first part chooses the thresholds once more, now from more draws; the rest is counted.
    cut = count // 4
    first, rest = zip(
        *((part[:cut], part[cut:]) for part in map(np.concatenate, found)), strict=True
    )
    by, by_g = choice.counting.score, choice.gaussian.score
    counting = best_counted(by, first[0], first[1], level, claim.delta)[1]
    gaussian = best_gaussian(by_g, first[2], first[3], level)[1]
    quiet, loud, quiet_g, loud_g = rest
    counted_draws = count - cut
    errors = counting.errors(quiet, loud)
    epsilon = counted_bound(errors, level, claim.delta)
    result.bounds.append(Bound(epsilon, "counting", name, by.name, NOTHING, counted_draws))
    why = choice.entries or why_not_gaussian(loud_g, quiet_g)
    if why is not None:
        result.left_out.append(f"Gaussian bounds, {name}: {why}.")
        if ends_with_the_draws(errors, epsilon, level, claim):
            result.findings.append(
                Finding(
                    "the canary shows, and so few draws cannot prove more",
                    f"{name}: {errors.present - errors.missed} of {errors.present} canaries are "
                    f"seen, with {errors.alarms} false alarms among {errors.absent} draws",
                    bare=True,
                )
            )
        return
    shifts = {
        "GDP": gdp_shift(gaussian.errors(quiet_g, loud_g), level),
        "moments": moment_shift(loud_g, quiet_g, level),
    }
    for method, shift in shifts.items():
        epsilon = gaussian_epsilon(shift, claim.delta)
        bound = Bound(epsilon, method, name, by_g.name, GAUSSIAN, counted_draws)
        result.bounds.append(bound)
