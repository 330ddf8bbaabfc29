"""Prediction-powered inference of a mean, from A. Angelopoulos, J. Duchi, T. Zrnic, "PPI++", 2023,
example 6.1, one query at a time, with labelled and unlabelled queries apart as in the paper.
"""

import math


def mean(values):
    return sum(values) / len(values)


def covariance(first, second):
    a, b = mean(first), mean(second)
    return sum((x - a) * (y - b) for x, y in zip(first, second, strict=True)) / len(first)


def power_tuned_weight(people, machine):
    """The weight that minimises the variance, over all N queries, in [0, 1]; shrunk by its doubt,
    max(0, 1 - 4 / t^2).
    """
    n = len(people) + 1  # of which one is left out
    if not covariance(machine, machine):
        return 0.0
    slope = covariance(people, machine) / covariance(machine, machine)
    residual = covariance(people, people) - slope * covariance(people, machine)
    t_squared = n * slope**2 * covariance(machine, machine) / residual
    return min(max(slope * max(0.0, 1.0 - 4.0 / t_squared), 0.0), 1.0)


def estimate(people, machine, unlabelled):
    """The estimate with the weight of each query from the others, and the mean weight."""
    n, size = len(people), len(people) + len(unlabelled)
    total, weights = 0.0, []
    for i in range(n):
        others = [j for j in range(n) if j != i]
        w = power_tuned_weight([people[j] for j in others], [machine[j] for j in others])
        weights.append(w)
        total += people[i] - w * machine[i]
    of_all = (sum(machine) + sum(unlabelled)) / size
    return total / n + mean(weights) * of_all, weights


def error(people, machine, unlabelled, weights):
    """The standard error: each query adds to the mean of the corrected and to that of all."""
    n, size = len(people), len(people) + len(unlabelled)
    of_all, w = (sum(machine) + sum(unlabelled)) / size, mean(weights)
    corrected = [h - v * (m - of_all) for h, m, v in zip(people, machine, weights, strict=True)]
    squares = 0.0
    for value, m in zip(corrected, machine, strict=True):
        squares += ((value - mean(corrected)) / n + w * (m - of_all) / size) ** 2
    for m in unlabelled:
        squares += (w * (m - of_all) / size) ** 2
    return math.sqrt(squares * n / (n - 1 - w))
