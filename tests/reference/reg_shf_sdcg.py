"""REG-SHF-SDCG, Wu et al. 2009, eq (18), one query."""

from tests.reference import shf_sdcg
from tests.reference._ranking import squared_error

freeze, holds = shf_sdcg.freeze, shf_sdcg.holds


def loss(query, scores, values, frozen):
    mix = values["mix"]
    return mix * squared_error(query, scores, values)[0] + (1 - mix) * shf_sdcg.loss(
        query, scores, values, frozen
    )


def gradient(query, scores, values):
    mix = values["mix"]
    return mix * squared_error(query, scores, values)[1] + (1 - mix) * shf_sdcg.gradient(
        query, scores, values
    )


def hessian(query, scores, values):
    mix = values["mix"]
    return mix / max(len(query), 1) + (1 - mix) * shf_sdcg.hessian(query, scores, values)


def surrogate(query, scores, values, at):
    bound = shf_sdcg.surrogate(query, scores, values, at)
    mix = values["mix"]
    return (
        None if bound is None else mix * squared_error(query, scores, values)[0] + (1 - mix) * bound
    )
