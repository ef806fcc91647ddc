"""Time a few runs. Know the rest. Deploy the best.

The public names are imported when they are first asked for: `import forerun` alone loads neither
NumPy nor anything else that is slow.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from forerun.deploying.deployment import Deployment
    from forerun.errors import (
        DataWarning,
        ExtrapolationWarning,
        FactorError,
        ForerunError,
        ForerunWarning,
        InputError,
        JobError,
        LevelError,
        StudyError,
        TableError,
    )
    from forerun.factors import Factor, Point, Space
    from forerun.importing import read_runs
    from forerun.infrastructure import Infrastructure
    from forerun.measuring.measure import measure
    from forerun.modelling.estimator import PerformanceModel
    from forerun.modelling.explain import Explanation
    from forerun.modelling.held_out import HeldOut, held_out
    from forerun.modelling.suggest import Suggestion, suggest
    from forerun.planning.inference import InferencePlan
    from forerun.planning.inference_request import InferenceRequest
    from forerun.planning.planner import Plan, plan
    from forerun.planning.request import Request
    from forerun.report import write_report
    from forerun.splitting.decouple import decouple
    from forerun.splitting.split import Split, split
    from forerun.study import Run, Study

__version__ = "0.1.0.dev0"

_MODULES = {
    "Deployment": "forerun.deploying.deployment",
    "Explanation": "forerun.modelling.explain",
    "ExtrapolationWarning": "forerun.errors",
    "Factor": "forerun.factors",
    "FactorError": "forerun.errors",
    "ForerunError": "forerun.errors",
    "ForerunWarning": "forerun.errors",
    "HeldOut": "forerun.modelling.held_out",
    "InferencePlan": "forerun.planning.inference",
    "InferenceRequest": "forerun.planning.inference_request",
    "Infrastructure": "forerun.infrastructure",
    "InputError": "forerun.errors",
    "JobError": "forerun.errors",
    "LevelError": "forerun.errors",
    "PerformanceModel": "forerun.modelling.estimator",
    "Plan": "forerun.planning.planner",
    "Point": "forerun.factors",
    "Request": "forerun.planning.request",
    "Run": "forerun.study",
    "Space": "forerun.factors",
    "Split": "forerun.splitting.split",
    "Study": "forerun.study",
    "StudyError": "forerun.errors",
    "Suggestion": "forerun.modelling.suggest",
    "TableError": "forerun.errors",
    "decouple": "forerun.splitting.decouple",
    "held_out": "forerun.modelling.held_out",
    "measure": "forerun.measuring.measure",
    "plan": "forerun.planning.planner",
    "read_runs": "forerun.importing",
    "split": "forerun.splitting.split",
    "suggest": "forerun.modelling.suggest",
    "write_report": "forerun.report",
    "DataWarning": "forerun.errors",
}

__all__ = [
    "DataWarning",
    "Deployment",
    "Explanation",
    "ExtrapolationWarning",
    "Factor",
    "FactorError",
    "ForerunError",
    "ForerunWarning",
    "HeldOut",
    "InferencePlan",
    "InferenceRequest",
    "Infrastructure",
    "InputError",
    "JobError",
    "LevelError",
    "PerformanceModel",
    "Plan",
    "Point",
    "Request",
    "Run",
    "Space",
    "Split",
    "Study",
    "StudyError",
    "Suggestion",
    "TableError",
    "__version__",
    "decouple",
    "held_out",
    "measure",
    "plan",
    "read_runs",
    "split",
    "suggest",
    "write_report",
]


if not TYPE_CHECKING:  # a type checker is to find names that are not there

    def __getattr__(name: str) -> object:
        """Import a public name from its module, and keep it."""
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(import_module(_MODULES[name]), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return list(__all__)
