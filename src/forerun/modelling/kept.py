"""The model that a study keeps: fitted once, and found again as long as the runs are the same."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from forerun.errors import DataWarning, InputError
from forerun.modelling.estimator import PerformanceModel
from forerun.modelling.held_out import HeldOut, held_out
from forerun.quantities import unit_of
from forerun.study import StoredModel, Study

if TYPE_CHECKING:
    import pandas as pd

DEFAULTS: Mapping[str, Any] = {
    "expression": "auto",
    "loss": "log",
    "strength": "auto",
    "random_state": 0,
}


@dataclass(frozen=True, slots=True)
class KeptModel:
    """A study's model of one target, with what it was fitted by and how well it does."""

    model: PerformanceModel
    target: str
    runs: int
    settings: Mapping[str, Any]
    held_out: tuple[HeldOut, ...]  # empty until it is compared
    fitted: str  # ISO 8601
    new: bool  # fitted now, not found in the study


def kept(study: Study, target: str = "seconds") -> KeptModel | None:
    """The model that the study keeps for `target`.

    None if it has none, if it has other runs by now, or if another forerun wrote it in a form that
    this one does not read: in all three cases the model is to be fitted.
    """
    stored = study.model_document(target)
    if stored is None or stored.digest != study.digest(target):
        return None
    return _read(stored, target)


def fit_kept(
    study: Study,
    target: str = "seconds",
    *,
    compare: bool = True,
    refit: bool = False,
    **settings: Any,
) -> KeptModel:
    """The study's model with these settings, fitted only where the study has none such.

    `compare` adds the error on held-out runs beside the peers'. What is fitted or compared is kept.
    """
    settings = {**DEFAULTS, **settings}
    # Taken before the runs are read: a run that comes in between makes the model stale, not wrong.
    digest, stored = study.digest(target), study.model_document(target)
    found = None
    if stored is not None and stored.digest == digest and not refit:
        found = _read(stored, target)
    if found is not None and found.settings != settings:
        found = None
    if found is not None and (found.held_out or not compare):
        return found
    table = study.table(target)
    if found is None:
        found = _fit(study, table, target, settings)
    if compare:
        errors = held_out(table, target, study.space, **settings)
        found = replace(found, held_out=tuple(errors))
    _keep(study, found, digest)
    return found


def model_of(study: Study, target: str = "seconds") -> KeptModel:
    """The study's model, whatever its settings; fitted by default where there is none."""
    return kept(study, target) or fit_kept(study, target, compare=False)


def _read(stored: StoredModel, target: str) -> KeptModel | None:
    document = stored.document
    try:
        if set(document["settings"]) != set(DEFAULTS) or not isinstance(document["runs"], int):
            return None
        return KeptModel(
            model=PerformanceModel.from_dict(document["model"]),
            target=target,
            runs=document["runs"],
            settings=document["settings"],
            held_out=tuple(HeldOut(**row) for row in document["held_out"]),
            fitted=stored.fitted,
            new=False,
        )
    except (InputError, KeyError, TypeError):
        return None


def _fit(study: Study, table: pd.DataFrame, target: str, settings: Mapping[str, Any]) -> KeptModel:
    space = study.space
    if table.empty:
        raise InputError(f"{study.path}: no run that ended well has {target}")
    model = PerformanceModel(
        intrinsic=list(space.intrinsic),
        extrinsic=list(space.extrinsic),
        roles={name: factor.role for name, factor in space.items() if factor.role},
        target=target,
        unit=unit_of(target),
        n_jobs=-1,
        **settings,
    )
    failures = study.failures()
    failed = failures[failures["status"] == "out_of_memory"].drop(columns="status")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)  # `notes_` has them, and is kept
        model.fit(table[list(space.names)], table[target], failed=failed if len(failed) else None)
    return KeptModel(model, target, len(table), dict(settings), (), "", new=True)


def _keep(study: Study, fitted: KeptModel, digest: str) -> None:
    document = {
        "model": fitted.model.to_dict(),
        "runs": fitted.runs,
        "settings": dict(fitted.settings),
        "held_out": [asdict(row) for row in fitted.held_out],
    }
    study.save_model(fitted.target, document, digest)
