"""How much a task would teach: the advantage that a trial of it is expected to have.

The training law is group-relative: of `n` trials of which `k` solve the task, each has the advantage
``(r - mean) / (unbiased standard deviation + 1e-6)``, and a group of one verdict contributes nothing
(`train.advantages`; GRPO, arXiv 2402.03300). The mean of its absolute value over the group is ``a(n, k) = 2 k (n - k) /
n² / (s + 1e-6)`` with ``s = sqrt(k (n - k) / (n (n - 1)))``, and 0 for ``k = 0`` and ``k = n``.

The signal of a task is what ``a(n, k)`` is expected to be in the next group of `n`, given its trials so far. Its solve
rate is taken from a beta distribution, fitted to all tasks of the pool by maximum likelihood, so `k` is beta-binomial:
four trials that all failed say much less of a pool where half the tasks are never solved than of one where all are.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import lgamma

import numpy as np
import numpy.typing as npt

from lego_rl.tasks.index.band import Counts

type Floats = npt.NDArray[np.float64]

EPSILON = 1e-6
"""Added to a group's standard deviation, as in training."""

_GRID = np.geomspace(0.02, 20.0, 61)
"""Parameters of the beta distribution that are tried; steps of 12 %."""


@dataclass(frozen=True)
class Prior:
    """A beta distribution of solve rates: mean ``solved / (solved + failed)``, the more pointed the larger both are."""

    solved: float
    failed: float


def fit_prior(solved: Counts, known: Counts) -> Prior:
    """The beta distribution that makes the pool's counts most likely; uniform where there is none.

    Args:
        solved: ``[tasks]`` of the trials that are known.
        known: ``[tasks]`` trials with a reward.
    """
    cells, times = np.unique(np.stack([solved, known])[:, known > 0], axis=1, return_counts=True)
    if not cells.size:
        return Prior(1.0, 1.0)
    a, b = np.meshgrid(_GRID, _GRID, indexing="ij")
    likely = np.zeros_like(a)
    for (s, k), count in zip(cells.T.tolist(), times.tolist(), strict=True):
        likely += count * (_log_beta(a + s, b + k - s) - _log_beta(a, b))
    at = np.unravel_index(int(likely.argmax()), likely.shape)
    return Prior(float(a[at]), float(b[at]))


def expected_signal(solved: Counts, known: Counts, group: int, prior: Prior) -> Floats:
    """The expected mean absolute advantage of the next group.

    Args:
        solved: ``[tasks]`` of the trials that are known.
        known: ``[tasks]`` trials with a reward.
        group: Trials of the group (n).
        prior: Of the solve rate, before any trial.

    Returns:
        ``[tasks]`` in [0, 1].
    """
    most = int(known.max(initial=0))
    table = np.zeros((most + 1, most + 1))
    value = advantages(group)
    for k in range(most + 1):
        for s in range(k + 1):
            table[k, s] = value @ _beta_binomial(group, prior.solved + s, prior.failed + k - s)
    found: Floats = table[known, solved]
    return found


def advantages(group: int) -> Floats:
    """``[group + 1]`` the mean absolute advantage in a group, by how many of it solve the task."""
    k = np.arange(group + 1.0)
    spread = k * (group - k)
    deviation = np.sqrt(spread / (group * max(1, group - 1)))
    return np.where(spread > 0, 2 * spread / group**2 / (deviation + EPSILON), 0.0)


def _beta_binomial(n: int, a: float, b: float) -> Floats:
    """``[n + 1]`` the chance of each count."""
    logs = [
        lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1) + lgamma(a + k) + lgamma(b + n - k) - lgamma(a + b + n)
        for k in range(n + 1)
    ]
    return np.exp(np.array(logs) + lgamma(a + b) - lgamma(a) - lgamma(b))


def _log_beta(a: Floats, b: Floats) -> Floats:
    return _lgamma(a) + _lgamma(b) - _lgamma(a + b)


def _lgamma(values: Floats) -> Floats:
    flat: Sequence[float] = values.ravel().tolist()
    return np.array(list(map(lgamma, flat))).reshape(values.shape)
