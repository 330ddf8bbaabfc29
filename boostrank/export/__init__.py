"""Exports: a model as the engines that serve rankers read it, one file a target, each proved before it is written."""

from boostrank.core.registry import Registry
from boostrank.export.target import TargetSpec

TARGETS: Registry[TargetSpec] = Registry("boostrank.export.targets", "target")
