"""The registry: one file a thing, found by name and alias."""

from __future__ import annotations

import pytest

from boostrank.core.errors import ParameterError
from boostrank.core.params import Registry
from boostrank.objectives import OBJECTIVES, _template


def test_every_module_with_a_spec_is_found_and_underscores_are_left_out():
    names = OBJECTIVES.names()
    assert {
        "sdcg",
        "shf-sdcg",
        "reg-shf-sdcg",
        "approx-ndcg",
        "smooth-ndcg",
        "lambdarank",
        "regression",
    } <= set(names)
    assert _template.SPEC.name not in names


def test_names_and_aliases_are_distinct():
    words = [word for spec in OBJECTIVES for word in (spec.name, *spec.aliases)]
    assert len(words) == len(set(words))


def test_look_up_forgives_case_dashes_and_underscores():
    assert OBJECTIVES.get("SHF_SDCG") is OBJECTIVES.get("shf-sdcg")
    assert OBJECTIVES.get("shf") is OBJECTIVES.get("shf-sdcg")


def test_an_unknown_name_gets_the_nearest_and_the_list():
    with pytest.raises(ParameterError, match=r"'lamdarank'.* 'lambdarank'"):
        OBJECTIVES.get("lamdarank")


def test_a_users_own_can_be_added():
    registry = Registry("boostrank.objectives", "objective")
    registry.add(_template.SPEC)
    assert registry.get("Template") is _template.SPEC
    assert "template" not in OBJECTIVES.names()
