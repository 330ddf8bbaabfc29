"""Exports: a model as the engines that serve rankers read it, one file a target, each proved before it is written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from boostrank.core.registry import Registry

if TYPE_CHECKING:
    from boostrank.export.target import TargetSpec

TARGETS: Registry[TargetSpec] = Registry("boostrank.export.targets", "target")
