"""Recognise files of another kind: Git LFS pointers, web pages, archives, other programs' models."""

from __future__ import annotations

import re

_BINARY = (
    (b"PK\x03\x04", "a zip archive, an Excel workbook or an .npz file: unpack it, or save it as CSV"),
    (b"\x1f\x8b", "compressed by gzip: unpack it first, or name it with the ending .gz"),
    (b"BZh", "compressed by bzip2: unpack it first, or name it with the ending .bz2"),
    (b"\xfd7zXZ\x00", "compressed by xz: unpack it first, or name it with the ending .xz"),
    (b"\x28\xb5\x2f\xfd", "compressed by zstd: unpack it first, or name it with the ending .zst"),
    (b"7z\xbc\xaf", "a 7z archive: unpack it first"),
    (b"Rar!", "a RAR archive: unpack it first"),
    (b"SQLite format 3", "an SQLite database: save the table as CSV"),
    (b"\xd0\xcf\x11\xe0", "an old Excel workbook: save it as CSV"),
    (b"%PDF", "a PDF"),
    (b"ORC", "an ORC file: save it as Parquet"),
    (b"Obj\x01", "an Avro file: save it as Parquet"),
    (b"PAR1", "a Parquet file: name it with the ending .parquet, or give --format parquet"),
    (b"ARROW1", "an Arrow file: name it with the ending .arrow, or give --format arrow"),
    (b"\x93NUMPY", "a NumPy array: read it with numpy.load and pass it to RankingDataset.from_arrays(...)"),
    (b"\x89HDF", "an HDF5 file"),
    (b"CBM1", "a CatBoost model, which boostrank does not read"),
    (b"binf", "an old binary model of XGBoost: load it there and save it as JSON, save_model('model.json')"),
    (
        b"{L\x00\x00\x00\x00\x00\x00\x00",
        "XGBoost's UBJSON: save it there as JSON, save_model('model.json')",
    ),
    (b"\xff\xfe", "looks like UTF-16: convert it, `iconv -f UTF-16 -t UTF-8`"),
    (b"\xfe\xff", "looks like UTF-16: convert it, `iconv -f UTF-16 -t UTF-8`"),
)
_TEXT = (
    (r"version https://git-lfs\.github\.com", "a pointer of Git LFS in place of the file: run `git lfs pull`"),
    (r"outs:\r?\n", "a pointer of DVC in place of the file: run `dvc pull`"),
    (r"\s*<(!doctype html|html)", "a web page, such as a download page or an error, in place of the file"),
    (r"\s*(<\?xml|<[a-zA-Z])", "XML"),
    (
        r"## *(LambdaMART|MART|RankNet|RankBoost|AdaRank|Coordinate Ascent|ListNet|Random Forests|Linear)",
        "a model of RankLib, which boostrank does not read",
    ),
    (r'\s*\{\s*"name"\s*:\s*"tree"', "LightGBM's dump (dump_model): save the model with save_model('model.txt')"),
    (r'\s*\[\s*\{\s*"nodeid"', "XGBoost's dump (get_dump, dump_model): save the model with save_model('model.json')"),
    (r'\s*\{\s*"(features_info|model_info|oblivious_trees)"', "a CatBoost model, which boostrank does not read"),
    (r'[^"]*"class"\s*:\s*"org\.apache\.solr', "a model or features of Solr, which boostrank does not read"),
    (r'\s*\{\s*"(learner|version)"', "a model of XGBoost"),
    (r"tree\r?\nversion=", "a model of LightGBM"),
    (
        r'\s*(\{\s*["}]|\[\s*[\[{"])',
        "JSON: boostrank data join reads features that a search engine logged",
    ),
    (
        r",[^\s,]*\r?\n0,[^\s,]*\r?\n",
        "a column of pandas with its index: write it with to_csv(..., index=False, header=False)",
    ),
    (r"[A-Za-z]\w*\r?\n-?\d+(\.\d+)?(e-?\d+)?\r?\n", "scores below a header: `tail -n +2 FILE` leaves it out"),
    (r"booster\[0\]:", "XGBoost's dump as text: save the model with save_model('model.json')"),
    (
        r"\S+[ \t]+Q0[ \t]+\S+[ \t]+\d+[ \t]+\S+[ \t]+\S+",
        "a run file of TREC: boostrank evaluate RUN --qrels QRELS measures it",
    ),
    (
        r"\S+[ \t]+0[ \t]+\S+[ \t]+-?\d+[ \t]*(\r?\n|$)",
        "qrels of TREC: boostrank evaluate RUN --qrels FILE measures runs, boostrank data join adds features",
    ),
    (r"\S+\t\d+\t-?[\d.eE+-]+[ \t]*(\r?\n|$)", "scores of RankLib: query, row, score; pass the third column only"),
)


def foreign_kind(beginning: bytes) -> str | None:
    """Identify a file by its first bytes and suggest a remedy; None if it is not recognised.

    Args:
        beginning: at least the first 300 bytes, or the whole file.
    """
    if re.match(rb"\x80[\x02-\x05]|x[\x01^\x9c\xda]", beginning):  # zlib: how joblib compresses
        return (
            "a pickle, which can run any code: open it where it was written, and save a model with its save_model, a "
            "table with to_parquet"
        )
    if len(beginning) > 262 and beginning[257:262] == b"ustar":
        return "a tar archive: unpack it first"
    for magic, kind in _BINARY:
        if beginning.startswith(magic):
            return kind
    text = beginning[:1000].decode("utf-8", "replace").removeprefix("\ufeff")
    return next((kind for pattern, kind in _TEXT if re.match(pattern, text, re.IGNORECASE)), None)
