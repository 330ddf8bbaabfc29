"""SoftNDCG, Taylor, Guiver, Robertson, Minka 2008, one query in plain NumPy, from their recursion
over contests.
"""

import numpy as np
from scipy.special import ndtr

from tests.reference._ranking import differences, discount, divisor


def tolerance(values):
    """Gradients of a pair cancel to what the normal's weights are known to."""
    return 1e-11


def freeze(query, scores, values):
    return None


def contests(scores, sigma):
    """pi_ij and N(0 | s_i - s_j, 2 sigma^2), 0 on the diagonals."""
    x = differences(scores) / (np.sqrt(2) * sigma)
    density = np.exp(-x * x / 2) / np.sqrt(2 * np.pi) / (np.sqrt(2) * sigma)
    chance = ndtr(x)
    np.fill_diagonal(chance, 0.0)
    np.fill_diagonal(density, 0.0)
    return chance, density


def rank_distribution(chances):
    """p(0), p(1), ... of the number of contests lost: one contest after another."""
    p = np.array([1.0])
    for pi in chances:
        p = np.append(p, 0.0) * (1 - pi) + np.append(0.0, p) * pi
    return p


def _discounts(query, values):
    """D(r) of the ranks 0 to n - 1."""
    n = len(query)
    return discount(np.arange(1, n + 1), values["train_discount"], n)


def _binomial_slopes(d, chances):
    """Delta_i = E[D(r + 1) - D(r)] over the distribution without i, for every i."""
    return np.array(
        [rank_distribution(np.delete(chances, i)) @ np.diff(d) for i in range(len(chances))]
    )


def _binomial_slopes_divided(d, chances):
    """The same with each contest divided out of the whole distribution, for lists too long to start
    over.
    """
    p, n = rank_distribution(chances), len(chances)
    forward, backward = np.zeros((n, n)), np.zeros((n, n))
    few, many = np.minimum(chances, 0.5), np.maximum(chances, 0.5)
    for r in range(n):
        forward[:, r] = (p[r] - few * (forward[:, r - 1] if r else 0.0)) / (1 - few)
    for r in range(n - 1, -1, -1):
        backward[:, r] = (p[r + 1] - (1 - many) * (backward[:, r + 1] if r < n - 1 else 0.0)) / many
    return np.where(chances[:, None] <= 0.5, forward, backward) @ np.diff(d)


def _normal(chances):
    """Where the boundaries r + 1/2 between the ranks lie, in standard deviations, and the variance."""
    variance = max(np.sum(chances * (1 - chances)), 1e-12)
    return (np.arange(len(chances)) + 0.5 - chances.sum()) / np.sqrt(variance), variance


def _normal_slopes(d, chances):
    """dE[D] / dpi_i through the mean, and through the variance."""
    y, variance = _normal(chances)
    drops, density = d[:-1] - d[1:], np.exp(-y * y / 2) / np.sqrt(2 * np.pi)
    by_mean = -np.sum(drops * density) / np.sqrt(variance)
    by_variance = -np.sum(drops * density * y) / (2 * variance)
    return by_mean + by_variance * (1 - 2 * chances)


def scaled(matrix, change, sweeps):
    """[p_j(r)] after sweeps that divide each rank (column), then each document (row), by its sum;
    and its change.
    """
    for _ in range(sweeps):
        for axis in (0, 1):
            total, more = matrix.sum(axis=axis, keepdims=True), change.sum(axis=axis, keepdims=True)
            matrix, change = matrix / total, change / total - matrix * more / total**2
    return matrix, change


def _distributions(chance):
    """[p_j(r)], before any scaling."""
    return np.array([rank_distribution(np.delete(chance[:, j], j)) for j in range(len(chance))])


def _sinkhorn_slopes(query, scores, values):
    """dJ / dpi_ij: what a change of one contest does to the whole scaled matrix."""
    n = len(query)
    chance, _ = contests(scores, values["sigma"])
    matrix, d, out = _distributions(chance), _discounts(query, values), np.zeros((n, n))
    for j in range(n):
        for i in range(n):
            if i != j:
                without = rank_distribution(np.delete(chance[:, j], [i, j]))
                change = np.zeros((n, n))
                change[j] = np.append(0.0, without) - np.append(without, 0.0)
                out[i, j] = _share(query, values) @ scaled(matrix, change, values["sweeps"])[1] @ d
    return out


def expectations(query, scores, values):
    """E[D(rank_j)] for every j."""
    chance, _ = contests(scores, values["sigma"])
    d, expected = _discounts(query, values), []
    if values["ranks"] == "sinkhorn":
        matrix = _distributions(chance)
        return scaled(matrix, np.zeros(matrix.shape), values["sweeps"])[0] @ d
    for j in range(len(query)):
        mine = np.delete(chance[:, j], j)
        if values["ranks"] == "normal":
            expected.append(d[-1] + (d[:-1] - d[1:]) @ ndtr(_normal(mine)[0]))
        else:
            expected.append(rank_distribution(mine) @ d)
    return np.array(expected)


def _slopes(query, scores, values):
    """dE[D(rank_j)] / dpi_ij in column j."""
    n = len(query)
    chance, _ = contests(scores, values["sigma"])
    d, slopes = _discounts(query, values), np.zeros((n, n))
    binomial = _binomial_slopes if n < 20 else _binomial_slopes_divided
    for j in range(n):
        others = np.arange(n) != j
        slopes[others, j] = (_normal_slopes if values["ranks"] == "normal" else binomial)(
            d, chance[others, j]
        )
    return slopes


def _share(query, values):
    return query.gains / divisor(query, 0, values)


def loss(query, scores, values, frozen):
    if not query.counts(values):
        return 0.0
    return -float(_share(query, values) @ expectations(query, scores, values))


def _forces(query, scores, values):
    """Force of m on the discounts of others, and on its own."""
    _, density = contests(scores, values["sigma"])
    if values["ranks"] == "sinkhorn":
        pair = density * _sinkhorn_slopes(query, scores, values)
    else:
        pair = density * _slopes(query, scores, values) * _share(query, values)[None, :]
    return pair.sum(axis=1), pair.sum(axis=0)


def gradient(query, scores, values):
    if not query.counts(values):
        return np.zeros(len(query))
    on_others, on_own = _forces(query, scores, values)
    return on_own - on_others


def hessian(query, scores, values):
    if not query.counts(values):
        return np.zeros(len(query))
    on_others, on_own = _forces(query, scores, values)
    return (np.abs(on_others) + np.abs(on_own)) / (np.sqrt(2) * values["sigma"])


def longest_step(query, scores, values):
    """|g| <= sqrt2 sigma h."""
    return np.sqrt(2) * values["sigma"]
