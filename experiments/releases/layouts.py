"""The public data sets as they are downloaded: their files, their published sizes, and how they are
read.

Sizes are in no single source; where none gives the size of a file, that of its fold is compared.
Sources:

* MSLR: folds are rotations of the same five parts (microsoft.com/en-us/research/project/mslr), so
  each holds all rows. WEB10K: 6,000, 2,000 and 2,000 queries in each fold
  (tensorflow.org/datasets/catalog/mslr_web); rows of Fold1 in catboost/benchmarks,
  ranking/Readme.md; 1,200,192 rows in all (OpenML's "microsoft"). WEB30K: Fold1 in table 1 of Qin
  et al., "Are Neural Rankers still Outperformed by Gradient Boosted Decision Trees?", ICLR 2021.
* Yahoo: Chapelle and Chang, "Yahoo! Learning to Rank Challenge Overview", PMLR 14, 2011.
* Istella: queries in tensorflow.org/datasets/catalog/istella, rows in table 1 of Qin et al.
  Istella-S: 33,018 queries in 3,408,630 rows, in the README of the release.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from scipy import sparse

import boostrank
from boostrank.core.errors import DataWarning
from boostrank.data.feature_space import FeatureSpace

Data = boostrank.RankingDataset


class Size(NamedTuple):
    """Queries and rows of a file or of a fold; None where no source says."""

    queries: int | None = None
    rows: int | None = None

    def agrees(self, published: Size) -> bool:
        """Whether nothing that is published is another number."""
        return all(theirs in (None, ours) for ours, theirs in zip(self, published, strict=True))

    def __str__(self) -> str:
        words = [
            f"{n:,} {what}"
            for n, what in zip(self, ("queries", "rows"), strict=True)
            if n is not None
        ]
        return " and ".join(words) or "no published size"


@dataclass(frozen=True)
class Release:
    """One data set.

    Args:
        name: as `--release` takes it.
        recipe: mslr, yahoo or istella.
        files: part (train, valid, test) -> file in the folder; {} stands for the number of the
            fold.
        folds: numbers of the folds; (1,) where there is one.
        sizes: (fold, part) -> published size; fold 0 for every fold, part "" for all files of a
            fold together.
        reading: options of the reader.
    """

    name: str
    recipe: str
    files: Mapping[str, str]
    sizes: Mapping[tuple[int, str], Size]
    folds: tuple[int, ...] = (1,)
    reading: Mapping[str, Any] = field(default_factory=dict)

    def paths(self, folder: Path, fold: int) -> dict[str, Path]:
        """The files of a fold by part."""
        return {part: folder / file.format(fold) for part, file in self.files.items()}

    def published(self, fold: int, part: str) -> Size:
        """The size of a file, or with no part of a fold."""
        return self.sizes.get((fold, part)) or self.sizes.get((0, part)) or Size()


_FOLDS = {"train": "Fold{}/train.txt", "valid": "Fold{}/vali.txt", "test": "Fold{}/test.txt"}
_YAHOO = {part: f"SET.{part}.txt" for part in ("train", "valid", "test")}
_ISTELLA = {"train": "full/train.txt", "test": "full/test.txt"}
_SAMPLE = {"train": "sample/train.txt", "valid": "sample/vali.txt", "test": "sample/test.txt"}
# Istella writes 1.79769313486231e+308 where a feature has no value.
_MISSING = {"inf": "missing"}

RELEASES = (
    Release(
        "web10k",
        "mslr",
        _FOLDS,
        {
            (0, "train"): Size(6_000),
            (0, "valid"): Size(2_000),
            (0, "test"): Size(2_000),
            (0, ""): Size(10_000, 1_200_192),
            (1, "train"): Size(6_000, 723_412),
            (1, "test"): Size(2_000, 241_521),
        },
        (1, 2, 3, 4, 5),
    ),
    Release(
        "web30k",
        "mslr",
        _FOLDS,
        {
            (0, ""): Size(31_531, 3_771_125),
            (1, "train"): Size(18_919, 2_270_296),
            (1, "valid"): Size(6_306, 747_218),
            (1, "test"): Size(6_306, 753_611),
        },
        (1, 2, 3, 4, 5),
    ),
    Release(
        "set1",
        "yahoo",
        {part: file.replace("SET", "set1") for part, file in _YAHOO.items()},
        {
            (1, "train"): Size(19_944, 473_134),
            (1, "valid"): Size(2_994, 71_083),
            (1, "test"): Size(6_983, 165_660),
        },
    ),
    Release(
        "set2",
        "yahoo",
        {part: file.replace("SET", "set2") for part, file in _YAHOO.items()},
        {
            (1, "train"): Size(1_266, 34_815),
            (1, "valid"): Size(1_266, 34_881),
            (1, "test"): Size(3_798, 103_174),
        },
    ),
    Release(
        "istella",
        "istella",
        _ISTELLA,
        {(1, "train"): Size(23_219, 7_325_625), (1, "test"): Size(9_799, 3_129_004)},
        reading=_MISSING,
    ),
    Release("istella-s", "istella", _SAMPLE, {(1, ""): Size(33_018, 3_408_630)}, reading=_MISSING),
)
"""The data sets that recipes know."""


def found(recipe: str, folder: Path, names: Sequence[str] = ()) -> list[Release]:
    """The releases of a recipe in a folder; those of MSLR, whose files have the same names, by the
    folder's name.

    Raises:
        SystemExit: none is there, or it could be either of two, or a name is unknown.
    """
    known = [release for release in RELEASES if release.recipe == recipe]
    unknown = set(names) - {release.name for release in known}
    if unknown:
        raise SystemExit(
            f"no release {min(unknown)!r}; there are:"
            f" {', '.join(release.name for release in known)}"
        )
    wanted = [release for release in known if not names or release.name in names]
    here = [
        r
        for r in wanted
        if any(p.exists() for fold in r.folds for p in r.paths(folder, fold).values())
    ]
    if not here:
        files = ", ".join(
            sorted({file.format(1) for release in wanted for file in release.files.values()})
        )
        raise SystemExit(
            f"{folder} has none of {files}: give the folder that holds them, as it was unpacked"
        )
    if recipe == "mslr" and len(here) > 1:
        here = [release for release in here if release.name in str(folder.resolve()).lower()]
        if len(here) != 1:
            words = " or ".join(f"--release {release.name}" for release in known)
            raise SystemExit(f"the name of {folder} does not say which release it is: give {words}")
    return here


def counted(path: Path) -> Size:
    """Count the queries and rows of a libsvm file without parsing its features."""
    rows = queries = 0
    before = b""
    with path.open("rb") as lines:
        for line in lines:
            words = line.split(None, 2)
            if len(words) > 1 and words[1].startswith(b"qid:"):
                rows += 1
                queries += words[1] != before
                before = words[1]
    return Size(queries, rows)


def faults(
    release: Release, folder: Path, fold: int, count: Callable[[Path], Size] = counted
) -> Iterator[str]:
    """Compare the files of a fold with their published sizes: a line for each that is missing or
    differs.
    """
    sizes: list[Size] = []
    paths = release.paths(folder, fold)
    whole = True
    for part, path in paths.items():
        if not path.exists():
            yield f"{path}: missing"
            whole = False
            continue
        sizes.append(count(path))
        if not sizes[-1].agrees(expected := release.published(fold, part)):
            yield f"{path}: found {sizes[-1]}, expected {expected}"
            whole = False
    total = Size(*map(sum, zip(*sizes, strict=True)))
    if whole and not total.agrees(expected := release.published(fold, "")):
        each = ", ".join(
            f"{path.name} {size}" for path, size in zip(paths.values(), sizes, strict=True)
        )
        yield f"{paths['test'].parent}: found {total} in all ({each}), expected {expected}"


def read(release: Release, path: Path, like: FeatureSpace | None = None) -> Data:
    """Read a file. Sparse files become dense, so that every library takes absent features for the
    zeros they are.
    """
    with (
        warnings.catch_warnings()
    ):  # about values read as missing, and last lines without a newline
        warnings.simplefilter("ignore", DataWarning)
        data = boostrank.read(path, format="libsvm", like=like, **release.reading)
    if not sparse.issparse(data.features):
        return data
    return Data.from_arrays(data.features.toarray(), data.labels, group=data.queries.sizes)
