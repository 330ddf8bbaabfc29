"""Model files in the engine's format, and sidecar files with the model's provenance.

    model.txt            the engine's file, readable without boostrank (JSON for a linear model)
    model.txt.meta.json  the sidecar, a `ModelInfo` as JSON, where "file" contains the checksums of
                         both files

A file's structure, and its checksum if there is a sidecar, are checked before an engine opens the
file. Nothing is executed or unpickled.

Saving replaces two files and may be interrupted in between. Therefore, the sidecar is written
first, and keeps the checksum and description of the old model (`previous`) until the new model has
been written.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import stat
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import convert

from boostrank.core.errors import ModelError, ParameterError, TrainingError
from boostrank.core.files import AnyPath, record_path, write_atomically
from boostrank.engines.trees import refuse
from boostrank.records import READABLE_SINCE, SCHEMA_VERSION, Seal, from_json

_SUFFIX = ".meta.json"
MAX_MODEL_BYTES = 2**31
MAX_SIDECAR_BYTES = 2**28


def sidecar_path(path: AnyPath) -> Path:
    """Return `model.txt.meta.json` for `model.txt`.

    For a symbolic link, the sidecar is next to the link's target, which saving replaces, or else
    next to the link.
    """
    record_file = Path(record_path(path))
    linked = Path(f"{os.fspath(path)}{_SUFFIX}")
    return record_file if os.path.lexists(record_file) or not os.path.lexists(linked) else linked


def content_sha256(data: bytes) -> str:
    """Return the SHA-256 of a file's bytes in hexadecimal, as sidecar files record it."""
    return hashlib.sha256(data).hexdigest()


_OTHER_FORMATS = ".ubj .bin .pkl .pickle .joblib .cbm .onnx .pmml .zip .gz".split()


def check_ending(path: AnyPath) -> None:
    """Raise an error if the path has the extension of another format."""
    ending = Path(path).suffix.lower()
    if ending in _OTHER_FORMATS:
        raise ParameterError(
            f"{os.fspath(path)}: {ending} is the extension of another format, but models are"
            " LightGBM text or JSON: name it model.txt or model.json"
        )


def write_model_files(path: AnyPath, body: bytes, sidecar: Mapping[str, Any]) -> None:
    """Write a model and its sidecar, or raise TrainingError. Errors and crashes leave the old pair
    of files or the new.

    Args:
        sidecar: the provenance as JSON data without NaN, infinity or a key "file".
    """
    record_file = Path(record_path(path))
    seal = {
        "schema_version": SCHEMA_VERSION,
        "readable_since": READABLE_SINCE,
        "body_sha256": content_sha256(body),
        "body_bytes": len(body),
    }
    record = _sealed(sidecar, seal)
    if len(record) > MAX_SIDECAR_BYTES or len(body) > MAX_MODEL_BYTES:
        raise TrainingError(
            f"{os.fspath(path)}: the model has {len(body)} bytes and its record {len(record)},"
            " which is too large to load"
        )
    # Until the new model is in place, the sidecar describes the old one too, if there is one.
    first_record = record
    with contextlib.suppress(ModelError):
        old_body = read_file(Path(path), MAX_MODEL_BYTES)
        info = None
        with contextlib.suppress(ModelError):
            info = _open_sidecar(record_file, old_body)
        digest = content_sha256(old_body)
        previous = {"body_sha256": digest, "body_bytes": len(old_body), "said": info}
        first_record = _sealed(sidecar, seal | {"previous": previous})
    write_atomically(record_file, first_record)
    try:
        write_atomically(path, body)
    except BaseException:
        if not os.path.exists(path):  # the model may be in place if only the final sync failed
            with contextlib.suppress(OSError):
                os.unlink(record_file)
        raise
    if first_record != record:
        with contextlib.suppress(TrainingError):
            write_atomically(record_file, record)


def read_model_files(path: AnyPath) -> tuple[bytes, dict[str, Any] | None]:
    """Read a model and its checked sidecar (None if there is none), or raise ModelError with the
    file and reason.
    """
    body = read_file(Path(path), MAX_MODEL_BYTES)
    record_file = sidecar_path(path)
    return body, _open_sidecar(record_file, body) if os.path.lexists(record_file) else None


def _sealed(sidecar: Mapping[str, Any], seal: Mapping[str, Any]) -> bytes:
    content = {"file": dict(seal), **sidecar}
    content["file"]["checksum"] = _checksum(content)
    return (json.dumps(content, indent=1, allow_nan=False) + "\n").encode()


def _checksum(content: Mapping[str, Any]) -> str:
    """Hash the content without its layout, because an editor may reformat the file."""
    return content_sha256(json.dumps(content, sort_keys=True, separators=(",", ":")).encode())


def _open_sidecar(record_file: Path, body: bytes) -> dict[str, Any] | None:
    """Read the description of this model file from its sidecar."""
    data = read_file(record_file, MAX_SIDECAR_BYTES)
    remedy = (
        f"restore both files from a copy, or remove {record_file.name} to load the model without"
        " provenance"
    )
    try:
        content = from_json(data)
        seal = convert(content["file"], Seal)
    except (TypeError, KeyError, ValueError) as error:
        raise ModelError(f"{record_file}: not a record of boostrank ({error}); {remedy}") from None
    if seal.schema_version > SCHEMA_VERSION:
        raise ModelError(
            f"{record_file}: it has schema version {seal.schema_version}, but this boostrank"
            f" reads up to {SCHEMA_VERSION}; install boostrank {seal.readable_since[:20]} or"
            " later"
        )
    content["file"].pop("checksum", None)
    is_changed = seal.checksum != _checksum(content)
    refuse(
        is_changed,
        f"{record_file}: its checksum does not match: it was changed or damaged; {remedy}",
    )
    del content["file"]
    # If a save was interrupted, the model is still the old one.
    digest = content_sha256(body)
    if digest == seal.body_sha256:
        return dict(content)
    if seal.previous is not None and digest == seal.previous.body_sha256:
        return seal.previous.said
    raise ModelError(
        f"{str(record_file).removesuffix(_SUFFIX)}: its {len(body)} bytes do not match the checksum"
        f" in its record (for {seal.body_bytes} bytes): the file was changed, truncated or damaged;"
        f" {remedy}"
    )


def read_file(path: Path, limit: int = sys.maxsize) -> bytes:
    """Read a regular file that has at most `limit` bytes."""
    try:
        flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
        with open(os.open(path, flags), "rb") as file:
            status = os.fstat(file.fileno())
            refuse(
                not stat.S_ISREG(status.st_mode), f"{path}: not an ordinary file: write it to one"
            )
            refuse(
                status.st_size > limit,
                f"{path}: {status.st_size} bytes, more than the {limit} that are read",
            )
            return file.read(status.st_size)
    except OSError as error:
        raise ModelError(f"{path}: cannot be read: {error.strerror or error}") from None
