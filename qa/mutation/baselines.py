"""Faults in the baselines' kernels and in their noise; see `mutations`."""

from __future__ import annotations

PAIRS, SOFTMAX = "kernels/margin.py", "kernels/shared.py"
NOISE, NOISE_TESTS = "kernels/primitives.py", "tests.kernels.test_noise"
EXPSUM = "tests.kernels.test_expsum"
NET, LIST, XE = "objectives/ranknet.py", "objectives/listnet.py", "objectives/xe_ndcg.py"
TILES, LAMBDA_SUMS = "kernels/lambda_sums.py", "tests.kernels.lambda_sums"
MOVES, GAUSS_MOVES = "kernels/gauss.py", "tests.kernels.test_gauss_rank_changes"
LOSS, YETI, STOCHASTIC = (
    "objectives/lambdaloss.py",
    "objectives/yetirank.py",
    "objectives/stochastic_rank.py",
)

BASELINES = [
    (NOISE, "(np.uint64(stream) + _ONE) * _GAMMA", "_GAMMA", NOISE_TESTS),
    (NOISE, "_UNIT = 2.0**-52", "_UNIT = 2.0**-53", NOISE_TESTS),
    (NOISE, "math.log(u) - math.log1p(-u)", "math.log(u)", NOISE_TESTS),
    (NOISE, "math.sqrt(-2.0 * math.log(u))", "math.sqrt(-math.log(u))", NOISE_TESTS),
    (NET, "alpha * above * (right * e - wrong)", "alpha * above * (right * e + wrong)", "ranknet"),
    (NET, "alpha * alpha * (right + wrong)", "alpha * alpha * right", "ranknet"),
    (NET, "value += alpha * gaps", "value += gaps", "ranknet"),
    (NET, "every[i] - equal[k] + wrong[i]", "every[i] - equal[k] - wrong[i]", EXPSUM),
    (NET, "bounded(0.5 * value)", "bounded(value)", EXPSUM),
    (PAIRS, "< margin:", "<= margin:", "ranksvm"),
    (PAIRS, "short if squared else pairs)\n", "short)\n", "ranksvm"),
    (PAIRS, "0.5 * (lack * (short + sums)", "0.5 * (lack * short", "ranksvm"),
    (PAIRS, "hess[pos] /= margin", "hess[pos] *= margin", "ranksvm"),
    (PAIRS, "node = k\n", "node = k + 1\n", "gbrank"),
    (PAIRS, "hess[pos] += pairs", "hess[pos] += 0.0", "gbrank"),
    (LIST, "grad[i] = q[i] - p[i]", "grad[i] = p[i] - q[i]", "listnet"),
    (LIST, "hess[i] = q[i] * complement[i]", "hess[i] = q[i]", "listnet"),
    (SOFTMAX, "others if i == top else total - shares[i]", "others", "listnet"),
    (XE, "gains[i] + 1.0 - uniform", "gains[i] - uniform", "xe-ndcg"),
    (XE, "for _ in range(2):", "for _ in range(1):", "xe-ndcg"),
    (XE, "others if i == top else others - a[i] + first", "others + first", "xe-ndcg"),
    (LOSS, "delta[j - start - i - 1]", "delta[j - start - i]", "lambdaloss"),
    (LOSS, "d_above[i], gain * disc", "d_above[i], 0.0", "lambdaloss"),
    (LOSS, "+ down * min(", "+ up * min(", "lambdaloss"),
    (LOSS, "CURVATURE[3] * fourth", "CURVATURE[3] * root", "lambdaloss"),
    (LOSS, "(totals[i] - i) + below)", "(totals[i] - i) - below)", EXPSUM),
    (TILES, "max(gap, 0.0), abs(gap)", "max(-gap, 0.0), abs(gap)", LAMBDA_SUMS),
    (TILES, "side * d[i] if a == _DISCOUNT", "d[i] if a == _DISCOUNT", LAMBDA_SUMS),
    (TILES, "node_powers = reach[end - k]", "node_powers = reach[end - k + 1]", LAMBDA_SUMS),
    (TILES, "blend * by_delta / n", "blend * by_delta", LAMBDA_SUMS),
    (TILES, "row[a] * (power * first[a])", "row[a] * first[a]", LAMBDA_SUMS),
    (
        TILES,
        "state[begin : begin + columns],\n        state[begin + columns :]",
        "state[:columns],\n        state[begin + columns :]",
        LAMBDA_SUMS,
    ),
    (TILES, "range(2, tiles)", "range(2, tiles - 1)", LAMBDA_SUMS),
    (LOSS, "discount(pos + 2.0, blend, n)", "discount(pos + 3.0, blend, n)", "lambdaloss"),
    (YETI, "index = draw * n + pos", "index = pos", "yetirank"),
    (YETI, "reading[pos] * (1.0", "(1.0", "yetirank"),
    (YETI, "up[pos] - down[other]", "up[other] - down[pos]", "yetirank"),
    (YETI, "i, j, w = j, i, -w", "w = -w", "yetirank"),
    (YETI, "weight *= params.decay", "weight *= 1.0", "yetirank"),
    (YETI, "_WEIGHT / permutations", "_WEIGHT", "yetirank"),
    (STOCHASTIC, "(total - noise[pos]) / (n - 1.0)", "total / (n - 1.0)", "stochastic-rank"),
    (STOCHASTIC, "(gain - g[q + 1]) * drop[q]", "(gain - g[q]) * drop[q]", "stochastic-rank"),
    (STOCHASTIC, "sigma * math.sqrt(n / (n - 1.0))", "sigma", "stochastic-rank"),
    (MOVES, "step_row = a if side > 0.0 else a - 1", "step_row = a", GAUSS_MOVES),
    (
        MOVES,
        "drop[step_row],\n                gains[a]",
        "drop[a],\n                gains[a]",
        GAUSS_MOVES,
    ),
    (MOVES, "grid[0, m + shift], grid[1, m + shift]", "grid[0, m], grid[1, m]", GAUSS_MOVES),
    (MOVES, "gain * total - taken", "taken - gain * total", GAUSS_MOVES),
    (MOVES, "first, start = x[a], away", "first, start = x[a], 0.0", GAUSS_MOVES),
    (MOVES, "STEP = 0.3", "STEP = 0.5", GAUSS_MOVES),
    (STOCHASTIC, "params.scale_free if n > 2 else 0.0", "params.scale_free", "stochastic-rank"),
    (STOCHASTIC, "sigma * params.mu * query", "params.mu * query", "stochastic-rank"),
]
