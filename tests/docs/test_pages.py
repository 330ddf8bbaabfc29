"""What README and the documentation say is there: names, links, make targets, figures."""

from __future__ import annotations

import os
import posixpath
import re
import subprocess
import sys
from fnmatch import fnmatch
from pathlib import Path
from runpy import run_path

import pytest

import boostrank
from boostrank.core.params import Registry
from boostrank.objectives import OBJECTIVES
from experiments.__main__ import ALIASES
from tests.docs.examples import PAGES, ROOT, text_of

README = (ROOT / "README.md").read_text(encoding="utf-8")
RESEARCH = (ROOT / "docs" / "research" / "index.md").read_text(encoding="utf-8")
DEFAULTS = (ROOT / "experiments" / "defaults" / "README.md").read_text(encoding="utf-8")
PEERS = (ROOT / "experiments" / "peers" / "README.md").read_text(encoding="utf-8")

_LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)\s]*)?\)")
_ANCHOR = re.compile(r"\]\(([^)#\s]*)#([^)\s]+)\)")
_MADE = ("api/", "commands/")


def test_readme_is_short() -> None:
    lines = README.splitlines()
    assert len(lines) <= 120
    assert max(map(len, lines)) <= 120
    assert f"[{len(OBJECTIVES.names())} objectives]" in README


def test_the_versions_agree() -> None:
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\nversion: {boostrank.__version__}\n" in citation
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    release = boostrank.__version__.partition(".dev")[0]
    assert re.search(rf"^## (Unreleased \()?{re.escape(release)}\b", changes, re.MULTILINE)


def test_the_figures_of_research_stand_in_the_report_that_it_names() -> None:
    rows = [row for row in RESEARCH.splitlines() if re.match(r"\| .* \| \.\d{4} \|", row)]
    assert len(rows) > 8
    for row in rows:
        _, mean, difference, p, luck = [cell.strip() for cell in row.strip("|").split("|")]
        assert f"| {mean} |" in PEERS
        if difference:  # there: the method minus `auto`
            centre, low, high = [
                _turned(number) for number in re.findall(r"[+-]\.\d{4}", difference)
            ]
            assert f"| {centre} [{high}, {low}] | {p} | {luck} |" in PEERS, row


def test_the_figures_of_readme_stand_in_the_report_that_it_names() -> None:
    rows = [re.findall(r"[+-]?\.\d{4}", row) for row in README.splitlines() if row.startswith("| ")]
    rows = [row for row in rows if row]
    assert len(rows) > 5
    for row in rows:
        mean, *gain = [figure.replace(".", "0.") for figure in row]
        assert f"| {mean} | " + (f"{gain[0]} [{gain[1]}, {gain[2]}]" if gain else "|") in DEFAULTS


def _turned(number: str) -> str:
    return ("-" if number[0] == "+" else "+") + number[1:]


def test_every_name_of_boostrank_is_there() -> None:
    text = "\n".join(text_of(page) for page in PAGES)
    names = sorted(set(re.findall(r"(?<![./\w-])boostrank((?:\.[A-Za-z_]\w*)+)\b(?![/-])", text)))
    assert ".cluster.train" in names
    code = f"import pkgutil\nfor name in {names}: pkgutil.resolve_name('boostrank' + name)"
    # Other than what tests start usually, with scikit-learn (tests/conftest.py): some names need
    # it.
    paths = [
        path
        for path in os.environ["PYTHONPATH"].split(os.pathsep)
        if not path.endswith("without_sklearn")
    ]
    env = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), *paths])}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stderr


def test_the_named_make_targets_exist() -> None:
    makefile = (ROOT / "Makefile").read_text()
    text = "\n".join(text_of(page) for page in PAGES)
    targets = set(re.findall(r"`make ([a-z-]+)`", text)) | set(
        re.findall(r"^make ([a-z-]+)", text, re.MULTILINE)
    )
    assert {"demo", "test", "docs"} <= targets
    rules = re.findall(r"^([a-z][a-z%-]*):", makefile, re.MULTILINE)
    for target in targets:
        assert any(fnmatch(target, rule.replace("%", "*")) for rule in rules), target
    for name in set(re.findall(r"NAME=([a-z-]+)", text)):
        package, _ = ALIASES.get(name, (name, []))
        assert (ROOT / "experiments" / package.replace("-", "_") / "run.py").exists(), name


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    generated = {"docs/contributing.md", "docs/changelog.md"}
    generated |= {f"docs/guide/{page.stem}.md" for page in PAGES if page.suffix == ".ipynb"}
    generated |= {f"docs/objectives/{name}.md" for name in (*OBJECTIVES.names(), "index")}
    for target in _LINK.findall(text_of(page)):
        if ":" in target:
            continue
        path = posixpath.normpath(posixpath.join(page.parent.relative_to(ROOT).as_posix(), target))
        # The rest of what is made is checked by `make docs`.
        is_generated = path.removeprefix("docs/").startswith(_MADE)
        assert (ROOT / path).exists() or path in generated or is_generated, f"{page.name}: {target}"


def test_anchors_of_readme_are_headings() -> None:
    anchors = [match for match in _ANCHOR.findall(README) if ":" not in match[0]]
    assert anchors
    for target, anchor in anchors:
        text = text_of(ROOT / (target or "README.md"))
        headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
        slugs = [re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings]
        assert anchor in slugs, f"{target}#{anchor}"


def test_links_of_readme_lead_into_the_repository_from_a_package_index() -> None:
    setup = run_path(str(ROOT / "setup.py"))
    readme = setup["make_links_absolute"](README, "v1")
    assert re.search(rf"!\[[^]]+\]\({setup['REPOSITORY']}/raw/v1/docs/assets/", readme)
    for target in _LINK.findall(readme):
        assert target.startswith("https://"), target
        repository, _, path = target.partition("/v1/")
        if path:
            assert repository in (f"{setup['REPOSITORY']}/raw", f"{setup['REPOSITORY']}/blob")
            assert (ROOT / path).exists(), target


def test_the_pages_of_objectives_hold_what_the_command_prints(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pytest.importorskip(
        "vl_convert", reason="charts are not installed: pip install 'boostrank[report]'"
    )
    monkeypatch.syspath_prepend(ROOT / "docs" / "_generate")
    import objective_pages

    rows = objective_pages.table(OBJECTIVES).splitlines()
    assert [row.split("|")[1].strip() for row in rows[2:]] == [
        f"[`{n}`]({n}.md)" for n in OBJECTIVES.names()
    ]
    assert len({row.replace("\\|", "").count("|") for row in rows}) == 1
    for spec in OBJECTIVES:
        text = objective_pages.page(spec)
        assert all(line in text for line in spec.equation.splitlines())
        assert all(f"| `{param.name}` |" in text for param in spec.params)


def test_a_user_s_file_of_objectives_gets_a_page_too(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip(
        "vl_convert", reason="charts are not installed: pip install 'boostrank[report]'"
    )
    monkeypatch.syspath_prepend(ROOT / "docs" / "_generate")
    import objective_pages
    import pictures

    from boostrank.objectives._template import SPEC

    registry: Registry = Registry("boostrank.objectives", "objective")
    registry.add(SPEC)
    pages = objective_pages.pages([registry.get("template")])
    assert list(pages) == [
        "objectives/index.md",
        "objectives/template.md",
        "objectives/template.svg",
    ]
    svg = pictures.picture(SPEC)
    assert svg.startswith(b"<svg")
    assert b"sigma=0.25" in svg
