"""Objectives and metrics in a user's Python file: its variable `SPEC` or its only objective, and
its functions.

Loading a file runs it, so this happens only on explicit request, on the command line or in
`load_objective`. Models and sidecar files record the file's name and sha256, but code is never
loaded from them.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import sys
import traceback
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from boostrank.checking.rules import unsafe
from boostrank.core.errors import BoostrankError, FileFormatError
from boostrank.core.files import read_whole
from boostrank.kernels.objective import ObjectiveSpec, check_arguments
from boostrank.metrics import Metric
from boostrank.objectives import OBJECTIVES


@dataclass(frozen=True)
class ObjectiveFile:
    """A Python file with an objective, which another process can run.

    Args:
        path: name of the file in messages and records.
        body: content of the file.
    """

    path: str
    body: bytes

    @classmethod
    def read(cls, path: str) -> ObjectiveFile:
        """Read a file."""
        return cls(path, read_whole(path))

    def load(self) -> ObjectiveSpec:
        """Run the file and return its objective; see `load_objective`."""
        names = vars(_run(self.path, self.body)).items()
        specs = {name: value for name, value in names if isinstance(value, ObjectiveSpec)}
        if "SPEC" in specs or len(specs) == 1:
            return specs.get("SPEC") or next(iter(specs.values()))
        fault = (
            "it has no objective: end the file with SPEC ="
            ' boostrank.define_objective("my-objective", kernel)'
        )
        if specs:
            fault = f"it has {len(specs)} objectives ({', '.join(specs)}): name one of them SPEC"
        raise FileFormatError(fault, file=self.path)


def load_objective(text: str | os.PathLike[str], *, checked: bool = True) -> ObjectiveSpec:
    """Run a file and return its compiled objective.

    Compiled code does not check indices, so a faulty kernel may end the process or read arbitrary
    memory. Its Python body is therefore called first, on queries of 0 to 11 documents, where NumPy
    checks every index.

    Args:
        text: path of the file, whose objective is the variable `SPEC` or the only one that it
            defines.
        checked: False leaves these checks to `check_objective`.

    Raises:
        FileFormatError: the file cannot be read, run or compiled, it has no objective, or its
            kernel leaves its arrays or does not write an output. The message names the file and the
            line.

    Example:
        >>> import pathlib, tempfile
        >>> import boostrank
        >>> from boostrank.checking.user_file import template_text
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = pathlib.Path(folder, "my.py")
        ...     _ = path.write_text(template_text())
        ...     spec = boostrank.load_objective(path, checked=False)
        >>> spec.name, [param.name for param in spec.params]
        ('template', ['sigma'])
    """
    path = os.fspath(text)
    spec = ObjectiveFile.read(path).load()
    if spec.name in OBJECTIVES.names():
        raise FileFormatError(
            f"the name {spec.name!r} is taken by boostrank's own objective", file=path
        )
    check_arguments(spec.kernel)
    finding = unsafe(spec) if checked else None
    if finding is not None:
        raise FileFormatError(
            f"{finding.message}: {finding.mend}. For details, run `boostrank objectives --check"
            f" {shlex.quote(path)}`",
            file=path,
        )
    _ = spec.kernel.compiled
    return spec


def load_metric(text: str) -> Metric:
    """Run a file and return a metric of it, given as `FILE.py:NAME`; see `Metric`.

    Raises:
        FileFormatError: the file cannot be read or run, or has no such function.
        ParameterError: the function has other arguments than a metric.
    """
    path, _, name = text.partition(".py:")
    path = f"{path.removesuffix('.py')}.py"
    module = _run(path, read_whole(path))
    metrics = {
        key: value
        for key, value in vars(module).items()
        if callable(value) or isinstance(value, Metric)
    }
    if name not in metrics:
        names = ", ".join(metrics) or "no function"
        raise FileFormatError(f"name a metric, {path}:NAME; the file has {names}", file=path)
    return Metric.of(metrics[name])


def template_text() -> str:
    """Return the template for a new objective."""
    return (Path(__file__).parents[1] / "objectives" / "_template.py").read_text(encoding="utf-8")


def _run(path: str, body: bytes) -> ModuleType:
    # Compile the bytes read here, without __pycache__, whose time stamps have a resolution of a
    # second.
    module = ModuleType(f"{Path(path).stem}_{hashlib.sha256(body).hexdigest()[:12]}")
    module.__file__ = path
    sys.modules[module.__name__] = module  # where dataclasses and pickle look it up
    folder = str(Path(path).resolve().parent)
    is_new = folder not in sys.path
    if is_new:
        sys.path.append(folder)  # last, so that modules in the same folder hide no library
    try:
        exec(compile(body, path, "exec"), module.__dict__)
    except SyntaxError as error:
        raise FileFormatError(
            error.msg, file=error.filename or path, line=error.lineno or 0, column=error.offset or 0
        ) from None
    except FileFormatError:
        raise
    except Exception as error:
        reason = " ".join(str(error).split())
        if not isinstance(error, BoostrankError):
            reason = f"{type(error).__name__}: {reason}"
        frames = traceback.extract_tb(error.__traceback__)
        lines = [0, *(frame.lineno or 0 for frame in frames if frame.filename == path)]
        raise FileFormatError(reason, file=path, line=lines[-1]) from error
    finally:
        if is_new:
            sys.path.remove(folder)
    return module
