"""Faults that the suite must notice: (file, what stands there, what is put in its place, who must fail).

Who: the name of an objective, whose kernel is compared with its twin, or a test module, whose tests are run.
"""

from __future__ import annotations

DRIVER, PRIMITIVES = "tests.kernels.test_driver", "tests.kernels.test_primitives"
EXPSUM = "tests.kernels.test_expsum"
SCHEDULES = "tests.schedules.test_schedules"

SOFT, HINGE, DCG = "kernels/soft_ranks.py", "kernels/hinge_ranks.py", "kernels/smooth_dcg.py"
SCALARS, QUERY, ERROR, RUN = (
    "kernels/primitives.py",
    "kernels/query.py",
    "kernels/squared_error.py",
    "kernels/driver.py",
)
SHF, REG, SMOOTH = "objectives/shf_sdcg.py", "objectives/reg_shf_sdcg.py", "objectives/smooth_ndcg.py"
LAMBDA, APPROX, SDCG = "objectives/lambdarank.py", "objectives/approx_ndcg.py", "objectives/sdcg.py"
APPROX_AP, SMOOTH_AP, SMOOTH_MRR = "objectives/approx_ap.py", "objectives/smooth_ap.py", "objectives/smooth_mrr.py"
PRECISION, MARGIN = "objectives/smooth_precision.py", "objectives/margin_ndcg.py"
RELEVANT, ASSIGN, RELEVANCE = "kernels/relevance.py", "kernels/assignment.py", "tests.kernels.test_relevance"

MUTATIONS = [
    # Signs.
    (SOFT, "grad[i] -= f", "grad[i] += f", "sdcg"),
    (SOFT, "f = w * (c - slope[i])", "f = w * (slope[i] - c)", "approx-ndcg"),
    (SDCG, "return -value", "return value", "sdcg"),
    (APPROX, "return -value", "return value", "approx-ndcg"),
    (HINGE, "return -value", "return value", "shf-sdcg"),
    (HINGE, "(above if wrong else -below)", "(above if wrong else below)", "shf-sdcg"),
    (HINGE, "(above if wrong else -below)", "(-above if wrong else -below)", "reg-shf-sdcg"),
    (HINGE, "both * (0.25 if wrong else -w)", "both * (-0.25 if wrong else -w)", "shf-sdcg"),
    (HINGE, "by_hinge * (c * above - slope[i] * below)", "by_hinge * (c * above + slope[i] * below)", "shf-sdcg"),
    (DCG, "weight_slope = -weight", "weight_slope = weight", "sdcg"),
    (SMOOTH, "gs[j] -= pull", "gs[j] += pull", "smooth-ndcg"),
    (SMOOTH, "miss = g[i] - gain", "miss = gain - g[i]", "smooth-ndcg"),
    (SMOOTH, "return mix * error - (1.0 - mix) * value", "return mix * error + (1.0 - mix) * value", "smooth-ndcg"),
    (LAMBDA, "f = size if gap > 0.0 else -size", "f = -size if gap > 0.0 else size", "lambdarank"),
    (LAMBDA, "return -value", "return value", "lambdarank"),
    (ERROR, "residual = scores[i] - doc_const[i, 0]", "residual = doc_const[i, 0] - scores[i]", "reg-shf-sdcg"),
    ("objectives/regression.py", "grad[i] = residual", "grad[i] = -residual", "regression"),
    # Dropped factors.
    (SOFT, "w = alpha * e * above * above", "w = e * above * above", "sdcg"),
    (SOFT, "h = alpha * w", "h = w", "approx-ndcg"),
    (SOFT, "(abs(slope[i]) + abs(c))", "abs(c)", "sdcg"),
    (SMOOTH, "scale = 2.0 / sigma * weight", "scale = 2.0 * weight", "smooth-ndcg"),
    (SMOOTH, "scale = 2.0 / sigma * weight", "scale = 1.0 / sigma * weight", "smooth-ndcg"),
    (SMOOTH, "scale * (both - gain * offset)", "scale * both", "smooth-ndcg"),
    (SMOOTH, "hs[j] += bend", "hs[j] += 0.0", "smooth-ndcg"),
    (HINGE, "slope[i] + c\n            kappa", "c\n            kappa", "shf-sdcg"),
    (HINGE, "h = -alpha * alpha * both * (by_sigmoid * below", "h = -alpha * both * (by_sigmoid * below", "shf-sdcg"),
    (HINGE, "return 1.0 / LN2", "return 1.0", "shf-sdcg"),
    (HINGE, "return sigma if kind", "return 1.0 if kind", "shf-sdcg"),
    (HINGE, "_TANGENT_FLOOR = 0.02", "_TANGENT_FLOOR = 0.0", "shf-sdcg"),
    (HINGE, "max(0.25 * tanh_over", "max(tanh_over", "shf-sdcg"),
    (HINGE, "line = 0.5 + 0.25", "line = 0.5 + 0.5", "shf-sdcg"),
    (DCG, "g = ranks[i], gains[i] / ideal", "g = ranks[i], gains[i]", "sdcg"),
    (DCG, "* (1.0 - weight) / width", "* (1.0 - weight)", "approx-ndcg"),
    (DCG, "value -= g * blend / n * width * sunk", "value -= g * blend / n * sunk", "shf-sdcg"),
    (APPROX, "1.0 / beta, slope", "beta, slope", "approx-ndcg"),
    (LAMBDA, "h = sigmoid * sigmoid * w", "h = sigmoid * w", "lambdarank"),
    (LAMBDA, "_DISTANCE_OFFSET = 0.01", "_DISTANCE_OFFSET = 0.1", "lambdarank"),
    (LAMBDA, "(LN2 * 2.0 * force)", "(2.0 * force)", "lambdarank"),
    (LAMBDA, "w = abs(gap) *", "w =", "lambdarank"),
    (ERROR, "grad[i] = share * residual / n", "grad[i] = share * residual", "reg-shf-sdcg"),
    (ERROR, "(1.0 - share) * hess[i]", "hess[i]", "smooth-ndcg"),
    (REG, "mix * error + (1.0 - mix) * value", "mix * error + value", "reg-shf-sdcg"),
    (SCALARS, "/ (2.0 * max(u, 0.05))", "/ max(u, 0.05)", "shf-sdcg"),
    (SCALARS, "value -= blend / n", "value -= blend", "sdcg"),
    (SCALARS, "y / 7.0", "y / 6.0", PRIMITIVES),
    (SCALARS, "v * (1.0 / 3.0", "v * (1.0 / 2.0", PRIMITIVES),
    # Ranks off by one, and other places.
    (SOFT, "ranks[i] = 1.0", "ranks[i] = 0.5", "sdcg"),
    (HINGE, "1.0 + lift if wrong else 0.0", "lift if wrong else 0.0", "shf-sdcg"),
    (HINGE, "(lift if wrong else 1.0)", "(lift if wrong else 0.0)", "shf-sdcg"),
    (HINGE, "(1.0 + line if wrong", "(line if wrong", "shf-sdcg"),
    (HINGE, "by_half = 0.0 if equal_force else 0.5", "by_half = 0.0", "shf-sdcg"),
    (HINGE, "if gains[i] > kth_gain:", "if gains[i] >= kth_gain:", PRIMITIVES),
    (HINGE, "cut = float(room)", "cut = 0.0", PRIMITIVES),
    (HINGE, "query_const[2], g, ranks) if k > 0", "query_const[2], g, ranks) if k > 1", "shf-sdcg"),
    (SMOOTH, "discount(j + 1.0, blend, n)", "discount(j + 2.0, blend, n)", "smooth-ndcg"),
    (SMOOTH, "anchors = min(int(k), n)", "anchors = min(int(k) + 1, n)", "smooth-ndcg"),
    (SMOOTH, "_FARTHEST = 700.0", "_FARTHEST = 2.0", "smooth-ndcg"),
    (LAMBDA, "d[pos] = discount(pos + 1.0,", "d[pos] = discount(pos + 2.0,", "lambdarank"),
    (LAMBDA, "for i in range(min(j, depth)):", "for i in range(min(j, depth + 1)):", "lambdarank"),
    (LAMBDA, "and s[0] != s[n - 1]", "and True", "lambdarank"),
    (APPROX, "k + 0.5 if k", "k if k", "approx-ndcg"),
    (SDCG, "min(k, n) if k > 0.0", "k + 0.5 if k > 0.0", "sdcg"),
    (QUERY, "discount(pos + 1.0, float(column), n)", "discount(pos + 2.0, float(column), n)", "sdcg"),
    (QUERY, "n if k[q] == 0 else min(k[q], n)", "n", "sdcg"),
    (QUERY, "if g[order[0]] == g[order[n - 1]]:", "if False:", "shf-sdcg"),
    (ERROR, '== "labels" else gains', '== "gains" else gains', "reg-shf-sdcg"),
    (SCALARS, "1.0 - (rank - 1.0) / n", "1.0 - rank / n", "sdcg"),
    (SCALARS, "scores[i] > scores[order[j - 1]]", "scores[i] >= scores[order[j - 1]]", DRIVER),
    # Near-linear sums.
    ("kernels/expsum.py", "out[i] += above * total", "out[i] += total", EXPSUM),
    ("kernels/expsum.py", "out[j - 1] += total", "out[j] += total", EXPSUM),
    ("kernels/expsum.py", "(up[term] + weight)", "up[term] + weight", EXPSUM),
    ("kernels/expsum.py", "terms - 1, domain", "terms - 2, domain", EXPSUM),
    (SOFT, "(weighted[i] - slope[i] * one[i])", "(weighted[i] + slope[i] * one[i])", EXPSUM),
    (SOFT, "alpha * alpha * abs(weighted[i])", "alpha * alpha * weighted[i]", EXPSUM),
    # The driver.
    (RUN, "(documents / curvature, HESSIAN_FLOOR)", "(curvature / documents, HESSIAN_FLOOR)", DRIVER),
    (RUN, "np.float32(weight * h[i])", "np.float32(h[i])", DRIVER),
    (RUN, "loss[q] = weight * value", "loss[q] = value", DRIVER),
    (RUN, "if h < floor32 and state[q] == LIVE:", "if h < floor32:", DRIVER),
    (RUN, "h = floor32\n                floored += 1", "h = floor32", DRIVER),
    (RUN, "if h32 < 0.0:", "if h32 < -1e30:", DRIVER),
    (RUN, "elif largest == 0.0:", "elif largest < 0.0:", DRIVER),
    (RUN, "grad[i] *= scale32", "grad[i] *= np.float32(1.0)", DRIVER),
    (RUN, "if curvature > 0 else (1.0, 1.0)", "if curvature > 0 else (1.0, 0.0)", DRIVER),
    (RUN, "probe += 0.0 * scores[i]", "probe += 0.0", DRIVER),
    # Schedules.
    ("schedules/__init__.py", "round / (rounds - 1)", "round / rounds", SCHEDULES),
    ("schedules/__init__.py", "(round + 1 - (self.rounds or 0) / 2)", "(round - (self.rounds or 0) / 2)", SCHEDULES),
    ("schedules/__init__.py", "self.second(round - self.at)", "self.second(round)", SCHEDULES),
    ("schedules/__init__.py", "max(1, total - self.at)", "total", SCHEDULES),
    # Binary metrics.
    (RELEVANT, "labels > 0", "labels > 1", RELEVANCE),
    (RELEVANT, "labels >= threshold if", "labels > threshold if", RELEVANCE),
    (RELEVANT, "count[count == np.diff(ptr)] = 0", "count[count == 0] = 0", RELEVANCE),
    (RELEVANT, "if doc_const[order[pos], 0] > 0.0:", "if doc_const[pos, 0] > 0.0:", "smooth-ap"),
    (APPROX_AP, "-ranks[place[a]])", "ranks[place[a]])", "approx-ap"),
    (APPROX_AP, "through[a] - worth[a] * precision", "-through[a] - worth[a] * precision", "approx-ap"),
    (APPROX_AP, "worth[a] * precision", "precision", "approx-ap"),
    (APPROX_AP, "1.0 / (m * ranks[place[a]])", "1.0 / ranks[place[a]]", "approx-ap"),
    (SMOOTH_AP, "-worth[a] * precision", "worth[a] * precision", "smooth-ap"),
    (SMOOTH_AP, "hs[place[a]] += hm[a]", "hs[place[a]] += 0.0", "smooth-ap"),
    (SMOOTH_AP, "gs[place[a]] += gm[a]", "gs[place[a]] -= gm[a]", "smooth-ap"),
    (SMOOTH_AP, "mine[a] = s[place[a]]", "mine[a] = s[a]", "smooth-ap"),
    (SMOOTH_MRR, "gs[p] -= better", "gs[p] += better", "smooth-mrr"),
    (SMOOTH_MRR, "(1.0 / ranks[p] - value)", "(1.0 / ranks[p])", "smooth-mrr"),
    (SMOOTH_MRR, "hs[p] += alpha * abs(better)", "hs[p] += abs(better)", "smooth-mrr"),
    (SMOOTH_MRR, "(ranks[p] * ranks[p])", "ranks[p]", "smooth-mrr"),
    (PRECISION, "(k + 0.5) / ranks[pos]", "k / ranks[pos]", "smooth-precision"),
    (PRECISION, "-beta / ranks[pos]", "-beta", "smooth-precision"),
    (PRECISION, "value += inside / k", "value += inside", "smooth-precision"),
    # Large margins.
    (ASSIGN, "price[c] -= step", "price[c] += step", "margin-ndcg"),
    (ASSIGN, "reach[c] -= step", "reach[c] -= 0.0", "margin-ndcg"),
    (ASSIGN, "- a[row] * s[c]", "+ a[row] * s[c]", "margin-ndcg"),
    (ASSIGN, "if previous >= 0 else new", "if previous >= 0 else 0", "margin-ndcg"),
    (MARGIN, "if of_this_gain <= depth:", "if of_this_gain < depth:", "margin-ndcg"),
    (MARGIN, "(found[pos] - target[pos]) / depth", "(target[pos] - found[pos]) / depth", "margin-ndcg"),
    (MARGIN, "_share_ties(target, g, s)", "_share_ties(target, g, g)", "margin-ndcg"),
    (MARGIN, "_share_ties(by_rank, s, s)", "_share_ties(by_rank, s, g)", "margin-ndcg"),
    (MARGIN, "worth[m] = margin * g[pos] / ideal", "worth[m] = margin * g[pos]", "margin-ndcg"),
    (MARGIN, "by_rank[pos] = max(depth - pos, 0)", "by_rank[pos] = depth - pos", "margin-ndcg"),
    (MARGIN, "return unit * value / depth", "return value / depth", "margin-ndcg"),
    (MARGIN, "discount(r + 1.0, blend, n)", "discount(r + 2.0, blend, n)", "margin-ndcg"),
]
