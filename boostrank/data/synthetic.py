"""Synthetic web-search data with known relevance, for the demo, tests and benchmarks.

A *query* has a length (log-normal: most lists are short, a few have hundreds of documents), a
number of terms, a rarity, an intent and a richness. A *document* has latent properties: the match
of its body, title and link texts, its authority, quality, age, and whether it is spam. The
relevance of a document is the sum of

* for informational queries: the match of body and title, both saturating;
* for navigational queries: link-text match *times* authority, and a preference for pages near the
  root of their site (the query feature `navigational` shifts the weight between the two);
* freshness, scaled by the query's need for it (`freshness_need`);
* quality, and a constant penalty for spam beyond a threshold;
* the query's richness, the same for all its documents: some queries have many good answers, some
  have none.

A judge sees the relevance with noise and assigns grades 0 to 4 in the shares of MSLR-WEB30K.
*Features* are noisy, often coarse views of one latent property: BM25 scores, counts, coverages,
link counts, clicks. Redundant features are functions of others, useless features are noise, and
query features are constant within a query. Some values are missing: at random (`page_quality`,
`age_days`), or because nobody clicked (`dwell_seconds`).

On the demo's 3,600 queries, a linear model reaches an NDCG@10 of .77 and trees reach .83, compared
with .44 for a random order and .92 for the true relevance. No constant was changed after rankers
were first compared on these data. Each feature has its own random stream, named after it, so that a
new feature does not change the others.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from itertools import cycle
from typing import Any, NamedTuple

import numpy as np

from boostrank.core.errors import ParameterError
from boostrank.core.queries import QueryIndex
from boostrank.core.types import Array, Float32Array, Float64Array, Int64Array
from boostrank.data.dataset import Provenance, RankingDataset

LABEL_NOISE = 0.5  # of the judges, in standard deviations of the relevance
GRADE_SHARES = (0.52, 0.32, 0.13, 0.02, 0.01)

# sigma of the log-normal list length: the median is exp(-sigma^2 / 2), about half, of the mean.
_LENGTH_SPREAD = 1.2

Stream = Callable[[str], np.random.Generator]


@dataclass(frozen=True, eq=False)
class SyntheticData:
    """A data set with its ground truth.

    Args:
        dataset: features, labels (grades 0 to 4) and queries.
        roles: "informative", "redundant", "useless" or "query" per feature, in column order.
            Informative features measure a component of the relevance, possibly only through
            interactions.
        relevance: float64[N], relevance without judging noise. No model can rank better than it on
            average.
    """

    dataset: RankingDataset
    roles: tuple[str, ...]
    relevance: Float64Array

    def split(self) -> SyntheticSplit:
        """Split the data into training (60%), validation and test queries, in order. Queries are
        independent draws."""
        n_queries = len(self.dataset.queries)
        fifth = round(0.2 * n_queries)
        splits = []
        for queries in np.split(np.arange(n_queries), [n_queries - 2 * fifth, n_queries - fifth]):
            index, rows = self.dataset.queries.take(queries)
            splits.append(
                SyntheticData(self.dataset.of_rows(index, rows), self.roles, self.relevance[rows])
            )
        return SyntheticSplit(*splits)


class SyntheticSplit(NamedTuple):
    """Three disjoint query sets from the same distribution."""

    train: SyntheticData
    valid: SyntheticData
    test: SyntheticData


def make_ranking_data(
    queries: int = 3000,
    *,
    seed: int = 0,
    mean_length: float = 40.0,
    max_length: int = 1000,
    useless: int = 8,
) -> SyntheticData:
    """Generate queries, documents, features and grades, as described in the module docstring.

    Args:
        queries: number of queries, at least 1.
        seed: random seed. The same seed gives the same data, bit for bit.
        mean_length: mean number of documents per query, >= 1 (`max_length` lowers it slightly).
        max_length: maximum number of documents per query, >= 1.
        useless: number of useless features, >= 0.

    Raises:
        ParameterError: a value is out of range.
    """
    for name, value, low in (
        ("queries", queries, 1),
        ("mean_length", mean_length, 1),
        ("max_length", max_length, 1),
        ("useless", useless, 0),
        ("seed", seed, 0),
    ):
        if not low <= value < np.inf:  # NumPy's isfinite fails on integers beyond 64 bits
            raise ParameterError(f"{name}={value!r} is out of range; allowed: >= {low}")

    def stream(name: str) -> np.random.Generator:
        return np.random.default_rng([seed, zlib.crc32(name.encode())])

    # Draw the lengths of the lists and the latent properties, and measure the features.
    log_mean = np.log(mean_length) - _LENGTH_SPREAD**2 / 2
    lengths = stream("list length").lognormal(log_mean, _LENGTH_SPREAD, queries)
    sizes = np.clip(np.rint(lengths), 1, max_length).astype(np.int64)
    world = _World(sizes, stream)
    informative = _measure_matches(world) | _measure_pages(world)
    columns_by_role = {
        "informative": informative,
        "redundant": _derive(informative, world),
        "query": {
            "query_terms": world.terms,
            "query_rarity": world.rarity,
            "query_hits": world.hits,
            "navigational": world.navigational,
            "freshness_need": world.freshness_need,
        },
        "useless": _make_useless(useless, world),
    }
    roles = tuple(role for role, group in columns_by_role.items() for _ in group)
    groups = columns_by_role.values()
    columns = {name: _round(values) for group in groups for name, values in group.items()}
    # Judge the documents.
    judged_relevance = world.relevance + LABEL_NOISE * stream("judges").normal(
        size=world.relevance.size
    )
    thresholds = np.quantile(judged_relevance, np.cumsum(GRADE_SHARES)[:-1])
    dataset = RankingDataset(
        features=np.column_stack(list(columns.values())),
        labels=np.searchsorted(thresholds, judged_relevance, side="left").astype(np.float64),
        queries=QueryIndex.from_sizes(sizes),
        feature_names=tuple(columns),
        provenance=Provenance(options={"generator": "boostrank.data.synthetic", "seed": seed}),
    )
    return SyntheticData(dataset, roles, world.relevance)


class _World:
    """The latent properties, float64[N] each (query properties are repeated per document), and the
    relevance."""

    def __init__(self, sizes: Int64Array, stream: Stream) -> None:
        n_queries = sizes.size
        n_documents = int(sizes.sum())
        self.stream = stream
        self.size = n_documents

        def of_query(values: Array) -> Float64Array:
            return np.repeat(values.astype(np.float64), sizes)

        def normal(name: str) -> Float64Array:
            return stream(name).normal(size=n_documents)

        self.terms = of_query(np.minimum(1 + stream("terms").poisson(1.8, n_queries), 10))
        self.rarity = of_query(stream("rarity").gamma(9.0, 0.7, n_queries))
        self.hits = of_query(np.rint(stream("hits").lognormal(9.0, 2.0, n_queries)).clip(max=2e7))
        self.navigational = of_query(stream("intent").beta(0.6, 0.9, n_queries))
        self.freshness_need = of_query(stream("news").beta(0.4, 1.6, n_queries))
        self.richness = of_query(stream("richness").normal(size=n_queries))

        match = normal("match")
        self.body = 0.7 * match + 0.7 * normal("body")
        self.title = 0.6 * match + 0.8 * normal("title")
        self.authority = normal("authority")
        self.anchor = 0.5 * match + 0.4 * self.authority + 0.8 * normal("anchor")
        self.quality = 0.3 * self.authority + 0.95 * normal("quality")
        self.spam = normal("spam") - 0.2 * self.authority
        self.age = stream("age").lognormal(4.5, 1.8, n_documents).clip(max=20_000)  # days
        self.depth = stream("depth").poisson(2.2, n_documents).astype(np.float64)

        topical = 1.3 * np.tanh(self.body) + 1.0 * _sigmoid(3.0 * self.title)
        link_match = 0.9 * np.maximum(self.anchor, 0.0) * _sigmoid(2.0 * self.authority)
        navigational_match = link_match - 0.1 * np.abs(self.depth - 1.0)
        utility = (
            (1.0 - self.navigational) * topical
            + 1.6 * self.navigational * navigational_match
            + 2.0 * self.freshness_need * np.exp(-self.age / 60.0)
            + 0.3 * np.tanh(self.quality)
            - 1.2 * (self.spam > 1.3)
        )
        self.demand = (utility - utility.mean()) / max(float(utility.std()), 1e-9)
        self.relevance = self.demand + 0.6 * self.richness

    def blur(self, name: str, amount: float) -> Float64Array:
        """Draw normal errors of a feature, from the stream of its name."""
        return amount * self.stream(name).normal(size=self.size)

    def count(self, name: str, log_mean: Float64Array) -> Float64Array:
        """Draw counts with the given logarithms of their means."""
        return self.stream(name).poisson(np.exp(np.minimum(log_mean, 14.0))).astype(np.float64)

    def lose(self, name: str, values: Float64Array, share: float) -> Float64Array:
        """Replace a share of the values by missing ones."""
        return np.where(self.stream(name).random(self.size) < share, np.nan, values)


def _measure_matches(world: _World) -> dict[str, Float64Array]:
    """Return the features of the match of query and document."""
    columns: dict[str, Float64Array] = {}
    for field, match, bias in (
        ("body", world.body, 1.5),
        ("title", world.title, -0.4),
        ("anchor", world.anchor, -1.4),
    ):
        rng = world.stream(f"coverage_{field}")
        covered = rng.binomial(world.terms.astype(np.int64), _sigmoid(1.2 * match + bias))
        columns[f"coverage_{field}"] = covered / world.terms
        spread = world.blur(f"tf_{field} spread", 0.5)
        frequency = covered + world.count(f"tf_{field}", 0.4 * bias + 0.9 * match + spread)
        frequency = np.where(covered > 0, frequency, 0.0)
        columns[f"tf_{field}"] = frequency
        saturation = frequency / (frequency + 2.5 * np.exp(world.blur(f"bm25_{field}", 0.25)))
        columns[f"bm25_{field}"] = world.rarity * covered * 2.2 * saturation
    surprisal = 4.5 + 0.4 * world.rarity - 1.1 * world.body + world.blur("lm_body", 1.2)
    return columns | {"lm_body": -world.terms * surprisal}


def _measure_pages(world: _World) -> dict[str, Float64Array]:
    """Return the features of pages and of their use."""
    pagerank = np.floor(np.exp(3.5 + 1.6 * world.authority + world.blur("pagerank", 0.8)))
    log_inlinks = -0.2 + 1.5 * world.authority + world.blur("inlinks spread", 0.8)
    spam_logit = 1.5 * world.spam + world.blur("spam_score", 0.4)
    clicks = world.count("clicks", -2.0 + 0.7 * world.demand + world.blur("clicks spread", 1.3))
    dwell = np.exp(3.0 + 0.4 * world.demand + world.blur("dwell_seconds", 1.0))
    return {
        "pagerank": np.minimum(pagerank, 65535.0),
        "inlinks": world.count("inlinks", log_inlinks),
        "url_depth": world.depth,
        "page_quality": world.lose("page_quality", np.rint(255 * _sigmoid(world.quality)), 0.1),
        "spam_score": np.rint(255 * _sigmoid(spam_logit)),
        "age_days": world.lose("age_days", np.ceil(world.age), 0.05),
        "clicks": clicks,
        "dwell_seconds": np.where(clicks > 0, dwell, np.nan),
    }


def _derive(informative: dict[str, Float64Array], world: _World) -> dict[str, Float64Array]:
    """Return the features that are functions of others."""
    # Use the values that a file would hold, so that features read from it obey the same functions.
    columns = {name: _round(values).astype(np.float64) for name, values in informative.items()}
    bm25_sum = columns["bm25_body"] + columns["bm25_title"] + columns["bm25_anchor"]
    inlinks = columns["inlinks"]
    title_coverage = columns["coverage_title"]
    best_coverage = np.maximum(columns["coverage_body"], columns["coverage_anchor"])
    return {
        "bm25_sum": bm25_sum,
        "bm25_mean": bm25_sum / 3.0,
        "bm25_body_copy": columns["bm25_body"] * np.exp(world.blur("bm25_body_copy", 0.1)),
        "coverage_best": np.maximum(best_coverage, title_coverage),
        "covered_terms_title": np.rint(title_coverage * world.terms),
        "log_inlinks": np.log1p(inlinks),
        "inlinks_copy": np.rint(inlinks * np.exp(world.blur("inlinks_copy", 0.2))),
    }


def _make_useless(count: int, world: _World) -> dict[str, Float64Array]:
    """Return features that are noise, of several kinds in turn."""
    size = world.size
    distributions: dict[str, Callable[[np.random.Generator], Any]] = {
        "normal": lambda rng: rng.normal(size=size),
        "count": lambda rng: rng.poisson(rng.lognormal(-1.0, 1.5, size)),
        "hash": lambda rng: rng.integers(0, 65536, size),
        "uniform": lambda rng: rng.random(size),
    }
    columns = {}
    for i, (kind, draw) in zip(range(count), cycle(distributions.items()), strict=False):
        name = f"noise_{kind}_{i // len(distributions) + 1}"
        columns[name] = draw(world.stream(name)).astype(np.float64)
    return columns


def _round(values: Float64Array) -> Float32Array:
    """Round to six digits as in a file. Adding 0.0 turns -0 into 0."""
    return (np.round(values, 6) + 0.0).astype(np.float32)


def _sigmoid(x: Float64Array) -> Float64Array:
    return 0.5 * (1.0 + np.tanh(0.5 * x))
