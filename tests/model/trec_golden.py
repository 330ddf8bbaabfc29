"""What trec_eval makes of runs: `python -m tests.model.trec_golden` writes `trec_golden.json`, with
pytrec_eval.
"""

from __future__ import annotations

import json
import random
from pathlib import Path

NAMES = {
    "map": "map",
    "mrr": "recip_rank",
    "ndcg": "ndcg",
    "map@5": "map_cut_5",
    "ndcg@1": "ndcg_cut_1",
    "ndcg@5": "ndcg_cut_5",
    "precision@5": "P_5",
    "precision@20": "P_20",
    "recall@5": "recall_5",
}
"""Ours -> trec_eval's."""
ASKED = {"map", "recip_rank", "ndcg", "map_cut.5", "ndcg_cut.1,5", "P.5,20", "recall.5"}
Values = dict[str, dict[str, float]]


def draw(queries: int, seed: int = 0) -> tuple[Values, Values]:
    """A run and qrels with ties, near ties, unjudged and unretrieved documents, spam and queries in
    one of them.
    """
    rng = random.Random(seed)
    run: Values = {}
    qrels: Values = {}
    for q in range(queries):
        pool = [f"d{rng.randrange(999)}" for _ in range(rng.choice([1, 4, 12, 40]))] + ["é", "Z-1"]
        judged = [name for name in pool if rng.random() < 0.6]
        retrieved = [name for name in pool if rng.random() < 0.7]
        top = rng.choice([0, 1, 4])
        if judged and q % 7 != 3:
            qrels[f"q{q}"] = {name: rng.choice([-1, 0, 0, *range(top + 1)]) for name in judged}
        if retrieved and q % 7 != 5:
            run[f"q{q}"] = {
                name: rng.randrange(4) / 2 + rng.choice([0, 0, 1e-12]) for name in retrieved
            }
    return run, qrels


def by_trec_eval(run: Values, qrels: Values) -> dict[str, dict[str, float]]:
    """Our name -> query -> value."""
    import pytrec_eval

    grades = {
        qid: {name: int(grade) for name, grade in judgements.items()}
        for qid, judgements in qrels.items()
    }
    values = pytrec_eval.RelevanceEvaluator(grades, ASKED).evaluate(run)
    return {
        ours: {qid: values[qid][theirs] for qid in sorted(values)} for ours, theirs in NAMES.items()
    }


if __name__ == "__main__":
    run, qrels = draw(14)
    golden = {"run": run, "qrels": qrels, "values": by_trec_eval(run, qrels)}
    Path(__file__).with_suffix(".json").write_text(json.dumps(golden, ensure_ascii=False) + "\n")
