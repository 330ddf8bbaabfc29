"""Faults in the baselines' kernels and in their noise; see `mutations`."""

from __future__ import annotations

PAIRS, SOFTMAX = "kernels/margin.py", "kernels/shared.py"
NOISE, NOISE_TESTS = "kernels/primitives.py", "tests.kernels.test_noise"
EXPSUM = "tests.kernels.test_expsum"
NET, LIST, XE = "objectives/ranknet.py", "objectives/listnet.py", "objectives/xe_ndcg.py"
TILES, LAMBDA_SUMS = "kernels/lambda_sums.py", "tests.kernels.lambda_sums"
LOSS, YETI = "objectives/lambdaloss.py", "objectives/yetirank.py"

BASELINES = [
    (NOISE, "(np.uint64(stream) + _ONE) * _GAMMA", "_GAMMA", NOISE_TESTS),
    (NOISE, "_UNIT = 2.0**-52", "_UNIT = 2.0**-53", NOISE_TESTS),
    (NOISE, "math.log(u) - math.log1p(-u)", "math.log(u)", NOISE_TESTS),
    (NOISE, "math.sqrt(-2.0 * math.log(u))", "math.sqrt(-math.log(u))", NOISE_TESTS),
    (NET, "alpha * above * (right * e - wrong)", "alpha * above * (right * e + wrong)", "ranknet"),
    (NET, "alpha * alpha * (right + wrong)", "alpha * alpha * right", "ranknet"),
    (NET, "loss += alpha * gap_sum", "loss += gap_sum", "ranknet"),
    (NET, "equal_sums[k] + wrong_count[i]", "equal_sums[k] - wrong_count[i]", EXPSUM),
    (NET, "bounded(0.5 * loss)", "bounded(loss)", EXPSUM),
    (PAIRS, "< margin:", "<= margin:", "ranksvm"),
    (PAIRS, "shortfall if squared else pairs", "shortfall", "ranksvm"),
    (PAIRS, "lack * (shortfall + distances)", "lack * shortfall", "ranksvm"),
    (PAIRS, "hess[pos] /= margin", "hess[pos] *= margin", "ranksvm"),
    (PAIRS, "node = grade\n", "node = grade + 1\n", "ranksvm"),
    (PAIRS, "hess[pos] += pairs", "hess[pos] += 0.0", "ranksvm"),
    (LIST, "grad[i] = q[i] - p[i]", "grad[i] = p[i] - q[i]", "listnet"),
    (LIST, "hess[i] = q[i] * complement[i]", "hess[i] = q[i]", "listnet"),
    (SOFTMAX, "others if i == top else exp_sum - shares[i]", "others", "listnet"),
    (XE, "gains[i] + 1.0 - uniform", "gains[i] - uniform", "xe-ndcg"),
    (XE, "for _ in range(2):", "for _ in range(1):", "xe-ndcg"),
    (XE, "others if i == top else others - a[i] + first", "others + first", "xe-ndcg"),
    (LOSS, "drops[j - start - i - 1]", "drops[j - start - i]", "lambdaloss"),
    (LOSS, "+ down * u", "+ up * u", "lambdaloss"),
    (LOSS, "CURVATURE_NEARER * fourth", "CURVATURE_NEARER * root", "lambdaloss"),
    (LOSS, "by_rank * (d_above[i] - discount_j)", "by_rank * d_above[i]", "lambdaloss"),
    (TILES, "max(gap, 0.0), abs(gap)", "max(-gap, 0.0), abs(gap)", LAMBDA_SUMS),
    (TILES, "side * d[i] if a == DISCOUNT", "d[i] if a == DISCOUNT", LAMBDA_SUMS),
    (TILES, "= node_powers[end - k]", "= node_powers[end - k + 1]", LAMBDA_SUMS),
    (TILES, "blend * pairs.by_delta / n", "blend * pairs.by_delta", LAMBDA_SUMS),
    (TILES, "row[a] * (power * node_powers[a])", "row[a] * node_powers[a]", LAMBDA_SUMS),
    (TILES, "wrong_row, sums_below = sums[begin", "wrong_row, sums_below = sums[0", LAMBDA_SUMS),
    (TILES, "range(2, tiles)", "range(2, tiles - 1)", LAMBDA_SUMS),
    (LOSS, "discount(pos + 2.0, blend, n)", "discount(pos + 3.0, blend, n)", "lambdaloss"),
    (YETI, "draw * n + pos)", "pos)", "yetirank"),
    (YETI, "reads[pos] * (1.0", "(1.0", "yetirank"),
    (YETI, "up[pos] - down[other]", "up[other] - down[pos]", "yetirank"),
    (YETI, "i, j, weight = j, i, -weight", "weight = -weight", "yetirank"),
    (YETI, "weight *= params.decay", "weight *= 1.0", "yetirank"),
    (YETI, "_WEIGHT / params.permutations", "_WEIGHT", "yetirank"),
]
