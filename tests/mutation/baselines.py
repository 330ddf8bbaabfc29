"""Faults in the baselines' kernels and in their noise; see `mutations`."""

from __future__ import annotations

PAIRS, SOFTMAX = "kernels/margin_pairs.py", "kernels/softmax.py"
NOISE, NOISE_TESTS = "kernels/noise.py", "tests.kernels.test_noise"
EXPSUM = "tests.kernels.test_expsum"
NET, LIST, XE = "objectives/ranknet.py", "objectives/listnet.py", "objectives/xe_ndcg.py"
LOSS, YETI, STOCHASTIC = "objectives/lambdaloss.py", "objectives/yetirank.py", "objectives/stochastic_rank.py"

BASELINES = [
    (NOISE, "(np.uint64(stream) + _ONE) * _GAMMA", "_GAMMA", NOISE_TESTS),
    (NOISE, "_UNIT = 2.0**-52", "_UNIT = 2.0**-53", NOISE_TESTS),
    (NOISE, "math.log(u) - math.log1p(-u)", "math.log(u)", NOISE_TESTS),
    (NOISE, "math.sqrt(-2.0 * math.log(u))", "math.sqrt(-math.log(u))", NOISE_TESTS),
    (NET, "alpha * above * (right * e - wrong)", "alpha * above * (right * e + wrong)", "ranknet"),
    (NET, "alpha * alpha * (right + wrong)", "alpha * alpha * right", "ranknet"),
    (NET, "value += alpha * gaps", "value += gaps", "ranknet"),
    (NET, "every[i] - equal[k] + wrong[i]", "every[i] - equal[k] - wrong[i]", EXPSUM),
    (NET, "return 0.5 * value", "return value", EXPSUM),
    (PAIRS, "< margin:", "<= margin:", "ranksvm"),
    (PAIRS, "short if squared else pairs)\n", "short)\n", "ranksvm"),
    (PAIRS, "0.5 * (lack * (short + sums)", "0.5 * (lack * short", "ranksvm"),
    (PAIRS, "h[pos] /= margin", "h[pos] *= margin", "ranksvm"),
    (PAIRS, "node = k\n", "node = k + 1\n", "gbrank"),
    (PAIRS, "h[pos] += pairs", "h[pos] += 0.0", "gbrank"),
    (LIST, "grad[i] = q[i] - p[i]", "grad[i] = p[i] - q[i]", "listnet"),
    (LIST, "hess[i] = q[i] * rest[i]", "hess[i] = q[i]", "listnet"),
    (SOFTMAX, "others if i == top else total - shares[i]", "others", "listnet"),
    (XE, "gains[i] + 1.0 - uniform", "gains[i] - uniform", "xe-ndcg"),
    (XE, "for _ in range(2):", "for _ in range(1):", "xe-ndcg"),
    (XE, "others if i == top else others - a[i] + first", "others + first", "xe-ndcg"),
    (LOSS, "delta[j - i - 1]", "delta[j - i]", "lambdaloss"),
    (LOSS, "g[i] * d[i], gain * disc", "g[i] * d[i], 0.0", "lambdaloss"),
    (LOSS, "(1.0 - e) * above)", "above)", "lambdaloss"),
    (LOSS, "discount(pos + 2.0, params[3], n)", "discount(pos + 3.0, params[3], n)", "lambdaloss"),
    (YETI, "draw * n + pos", "pos", "yetirank"),
    (YETI, "weight *= decay", "weight *= 1.0", "yetirank"),
    (YETI, "_WEIGHT / permutations", "_WEIGHT", "yetirank"),
    (STOCHASTIC, "(total - noise[pos]) / (n - 1.0)", "total / (n - 1.0)", "stochastic-rank"),
    (STOCHASTIC, "(gain - g[q + 1]) * drop[q]", "(gain - g[q]) * drop[q]", "stochastic-rank"),
    (STOCHASTIC, "sigma * math.sqrt(n / (n - 1.0))", "sigma", "stochastic-rank"),
    (STOCHASTIC, "params[3] if n > 2 else 0.0", "params[3]", "stochastic-rank"),
    (STOCHASTIC, "sigma * shift * doc_const", "shift * doc_const", "stochastic-rank"),
]
