"""The published generic expression: t = (sum of a·I^p) · (product of E^q) + C, and its fit."""

from forerun.modelling.generic.cost import Loss, Penalty
from forerun.modelling.generic.design import Design, design_from
from forerun.modelling.generic.evolution import Settings
from forerun.modelling.generic.expression import GenericExpression, Part, Scaling
from forerun.modelling.generic.fit import fit_generic
from forerun.modelling.generic.strength import choose_strength, fit_resamples

__all__ = [
    "Design",
    "GenericExpression",
    "Loss",
    "Part",
    "Penalty",
    "Scaling",
    "Settings",
    "choose_strength",
    "design_from",
    "fit_generic",
    "fit_resamples",
]
