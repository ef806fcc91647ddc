"""PerformanceModel: the run time (or memory, or energy) of configurations that nobody has tried."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Iterable, Mapping, Sequence
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self
from uuid import uuid4

import numpy as np
import pandas as pd
from joblib import effective_n_jobs
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data
from threadpoolctl import threadpool_limits

from forerun.errors import DataWarning, ExtrapolationWarning, InputError
from forerun.factors import guess_role
from forerun.modelling.auto import AutoModel, fit_auto
from forerun.modelling.checks import cautions_on, checked_target, notes_on
from forerun.modelling.columns import LOG_LIMIT, Array, as_levels, is_number
from forerun.modelling.feasibility import Boundary, fit_boundary
from forerun.modelling.generic import Loss, Penalty
from forerun.modelling.generic_model import GenericModel, fit_generic_model
from forerun.modelling.terms import write
from forerun.modelling.writing import Style

if TYPE_CHECKING:
    from forerun.modelling.explain import Explanation

FORMAT = 1  # of the saved document


class PerformanceModel(RegressorMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn is untyped
    """A scikit-learn regressor for the run times of a job whose factors vary.

    `intrinsic` factors are what the application does, `extrinsic` ones how it is scaled; columns
    named in neither list are extrinsic. `expression="auto"` is a readable formula with a smooth
    correction, `"generic"` the published expression alone; `loss`, `penalty`, `strength` (a number,
    or "auto" for cross-validation) and `exponent_bound` belong to the latter. `roles` says which
    factors count workers or nodes (by default their names do). `n_jobs` changes the speed only.
    """

    def __init__(
        self,
        *,
        intrinsic: Sequence[str] | None = None,
        extrinsic: Sequence[str] | None = None,
        expression: Literal["auto", "generic"] = "auto",
        loss: Loss = "log",
        penalty: Penalty = "l2",
        strength: float | Literal["auto"] = "auto",
        exponent_bound: float = 3.0,
        roles: Mapping[str, str] | None = None,
        target: str = "seconds",
        unit: str = "s",
        n_jobs: int | None = None,
        random_state: int = 0,
    ) -> None:
        self.intrinsic = intrinsic
        self.extrinsic = extrinsic
        self.expression = expression
        self.loss = loss
        self.penalty = penalty
        self.strength = strength
        self.exponent_bound = exponent_bound
        self.roles = roles
        self.target = target
        self.unit = unit
        self.n_jobs = n_jobs
        self.random_state = random_state

    def fit(self, X: Any, y: Any, failed: Any = None, *, quick: bool = False) -> Self:
        """Fit to a table of factors and the measured target.

        `failed` holds points that ran out of memory: they bound what `feasible` calls feasible.
        A `quick` fit of the default expression takes a fraction of the time and predicts the same
        inside the measured range, but has not learnt by held-out runs how to go on outside.
        """
        self._check_settings()
        table, target = self._learn(X, y)
        seed = self.seed_ = int(check_random_state(self.random_state).randint(2**31))
        # One thread: small matrices gain nothing from more, and the bits do not depend on it.
        with threadpool_limits(1):
            if self.expression == "auto":
                workers = effective_n_jobs(self.n_jobs)
                roles = self._roles(map(str, table.columns))
                counted = {name for name, role in roles.items() if role in ("workers", "nodes")}
                self.model_: AutoModel | GenericModel = fit_auto(
                    table, target, seed, workers, quick, counted
                )
            else:
                self.model_ = fit_generic_model(
                    table,
                    target,
                    self.intrinsic_,
                    loss=self.loss,
                    penalty=self.penalty,
                    strength=None if self.strength == "auto" else float(self.strength),
                    exponent_bound=self.exponent_bound,
                    seed=seed,
                )
            self.boundary_ = (
                fit_boundary(table, self._chosen(failed, "failed"))
                if failed is not None and len(failed)
                else None
            )
        self.runs_ = _remembered(table, target, seed)
        self.notes_ = notes_on(table, self.model_.columns)
        for note in self.notes_:
            warnings.warn(note, DataWarning, stacklevel=2)
        return self

    def predict(self, X: Any) -> Array:
        """The predicted target of each point: the value of least expected relative error.

        It lies below the median by half the variance of the log target.
        """
        table = self._asked(X)
        for line in self._cautions(table):
            warnings.warn(line, ExtrapolationWarning, stacklevel=2)
        with threadpool_limits(1):
            return self._exp(self.model_.log_time(table))

    def predict_interval(self, X: Any, coverage: float = 0.9) -> tuple[Array, Array]:
        """Bounds that hold this share of single unseen runs."""
        if not (isinstance(coverage, Real) and 0 < coverage < 1):
            raise InputError("coverage", coverage, "a number between 0 and 1")
        table = self._asked(X)
        with threadpool_limits(1):
            centre = self.model_.log_time(table)
            half = self.model_.intervals.half_width(*self.model_.log_deviation(table), coverage)
        return self._exp(centre - half), self._exp(centre + half)

    def predict_formula(self, X: Any) -> Array:
        """What the closed form alone says, without the correction."""
        table = self._asked(X)
        return self._exp(self.model_.log_formula(table))

    def formula(self, style: Style = "text") -> str:
        """The closed form to read ("text"), to print ("latex") or to evaluate ("python")."""
        check_is_fitted(self)
        if style not in ("text", "latex", "python"):
            raise InputError("style", style, "text, latex or python")
        model = self.model_
        if isinstance(model, GenericModel):
            return model.expression.formula(style, self.target)
        return write(model.formula, model.design, model.centre, style, self.target)

    def explain(self) -> Explanation:
        """What drives the target, and how sure that is."""
        from forerun.modelling.explain import explain

        check_is_fitted(self)
        with threadpool_limits(1):
            return explain(self)

    def cautions(self, X: Any) -> list[str]:
        """Where these points lie outside what was measured, one line each."""
        return self._cautions(self._asked(X))

    def feasible(self, X: Any) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """False where runs like these ran out of memory."""
        check_is_fitted(self)
        if self.boundary_ is None:
            return np.ones(len(self._asked(X)), bool)
        table = self._chosen(X)
        self.boundary_.columns.check(table)  # it knows levels that always failed, too
        return self.boundary_.feasible(table)

    @property
    def intrinsic_(self) -> list[str]:
        """The names of the intrinsic factors; all others are extrinsic."""
        return self._listed("intrinsic")

    @property
    def roles_(self) -> dict[str, str]:
        """The role of each factor that has one: as given, else as its name says."""
        return self._roles(c.name for c in self.model_.columns.all if c.kind != "levels")

    def _roles(self, names: Iterable[str]) -> dict[str, str]:
        guessed = {name: role for name in names if (role := guess_role(name))}
        return guessed | dict(self.roles or {})

    def to_dict(self) -> dict[str, Any]:
        """A JSON document; `from_dict` gives a model with the same predictions to the bit."""
        check_is_fitted(self)
        settings = {name: _plain(value) for name, value in self.get_params().items()}
        for name in ("intrinsic", "extrinsic"):
            settings[name] = None if settings[name] is None else self._listed(name)
        settings["roles"] = None if self.roles is None else dict(self.roles)
        # what was fitted, whatever the parameters have been set to since
        settings["expression"] = "auto" if isinstance(self.model_, AutoModel) else "generic"
        if not isinstance(settings["random_state"], int | None):
            settings["random_state"] = self.seed_
        return {
            "format": FORMAT,
            "settings": settings,
            "names": [str(name) for name in self._names()],
            "named": hasattr(self, "feature_names_in_"),
            "model": self.model_.to_dict(),
            "boundary": None if self.boundary_ is None else self.boundary_.to_dict(),
            "runs": self.runs_,
            "notes": self.notes_,
        }

    @classmethod
    def from_dict(cls, document: Mapping[str, Any], where: str = "model") -> Self:
        """The model that `to_dict` wrote down; `where` it was found is said of a damaged one."""
        if not isinstance(document, Mapping):
            raise InputError(where, f"a {type(document).__name__}", "a saved model")
        if document.get("format") != FORMAT:
            raise InputError(f"{where}, format", document.get("format"), str(FORMAT))
        try:
            return cls._restored(document)
        except KeyError as error:
            raise InputError(where, f"no {error.args[0]!r}", "a saved model") from None
        except (ArithmeticError, AttributeError, IndexError, RecursionError, TypeError, ValueError):
            raise InputError(where, "a damaged model", "a saved model") from None

    @classmethod
    def _restored(cls, document: Mapping[str, Any]) -> Self:
        model = cls(**document["settings"])
        kind = AutoModel if model.expression == "auto" else GenericModel
        model.model_ = kind.from_dict(document["model"])
        boundary = document["boundary"]
        model.boundary_ = None if boundary is None else Boundary.from_dict(boundary)
        model.runs_, model.notes_ = document["runs"], list(document["notes"])
        model.n_features_in_ = len(document["names"])
        if document["named"]:
            model.feature_names_in_ = np.array(document["names"], dtype=object)
        model._try()
        return model

    def _try(self) -> None:
        """Ask a restored model something that it knows: a damaged one has no finite answer."""
        known = pd.DataFrame(self.runs_["factors"]).iloc[:3]
        fitted = self.model_
        answers = [fitted.log_time(known), fitted.log_formula(known)]
        answers += [fitted.intervals.scores, fitted.intervals.growth, self.runs_["target"]]
        if not all(np.isfinite(np.asarray(answer, float)).all() for answer in answers):
            raise ValueError("a number that is not finite")
        self.formula()
        dict(self.roles_)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to a JSON file, whole or not at all."""
        path = Path(path)
        text = json.dumps(self.to_dict(), allow_nan=False)
        partial = path.with_name(f".{path.name}.{uuid4().hex}")
        try:
            partial.write_text(text, encoding="utf-8")
            partial.replace(path)
        finally:
            partial.unlink(missing_ok=True)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a model that `save` wrote."""
        try:
            document = json.loads(Path(path).read_text(encoding="utf-8"))
        except OSError as error:
            raise InputError(str(path), error.strerror or "no file", "a saved model") from None
        except (ValueError, RecursionError):
            raise InputError(str(path), "no JSON, or only a part of it", "a saved model") from None
        return cls.from_dict(document, str(path))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = True
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        return tags

    def _check_settings(self) -> None:
        allowed = {
            "expression": ("auto", "generic"),
            "loss": ("log", "relative", "absolute"),
            "penalty": ("l1", "l2"),
        }
        for name, values in allowed.items():
            if getattr(self, name) not in values:
                raise InputError(name, getattr(self, name), "one of " + ", ".join(values))
        if self.strength != "auto" and not (
            isinstance(self.strength, int | float) and 0 <= self.strength < np.inf
        ):
            raise InputError("strength", self.strength, "a number not below 0, or 'auto'")
        if not 0 < self.exponent_bound < np.inf:
            raise InputError("exponent_bound", self.exponent_bound, "a positive number")

    def _learn(self, X: Any, y: Any) -> tuple[pd.DataFrame, Array]:
        if y is None:
            raise ValueError("requires y to be passed, but the target y is None")
        table = self._table(X, first=True)
        if len(table) < 2:
            raise InputError("X", f"{len(table)} sample", "at least 2 runs")
        target = checked_target(column_or_1d(y, warn=True), self.target)
        if len(target) != len(table):
            raise InputError("y", f"{len(target)} values", f"{len(table)}, as many as rows of X")
        self._check_scopes(list(table.columns))
        return table, target

    def _check_scopes(self, names: list[str]) -> None:
        listed = {scope: self._listed(scope) for scope in ("intrinsic", "extrinsic")}
        for setting, given in (listed | {"roles": list(self.roles or ())}).items():
            for name in given:
                if name not in names:
                    raise InputError(setting, name, "a column: " + ", ".join(names[:12]))
        twice = set(listed["intrinsic"]) & set(listed["extrinsic"])
        if twice:
            raise InputError("intrinsic and extrinsic", sorted(twice)[0], "each factor in one only")

    def _cautions(self, table: pd.DataFrame) -> list[str]:
        measured = pd.DataFrame(self.runs_["factors"])
        return cautions_on(table, self.model_.columns, self.roles_, measured)

    def _listed(self, scope: str) -> list[str]:
        names = getattr(self, scope)
        if isinstance(names, str):
            raise InputError(scope, names, f"a list of names, such as [{names!r}]")
        return [] if names is None else [str(name) for name in names]

    def _asked(self, X: Any) -> pd.DataFrame:
        check_is_fitted(self)
        table = self._chosen(X)
        self.model_.columns.check(table)
        return table

    def _chosen(self, X: Any, where: str = "X") -> pd.DataFrame:
        """The columns that the model was fitted to, whatever else X has."""
        if isinstance(X, pd.DataFrame) and hasattr(self, "feature_names_in_"):
            for name in self.feature_names_in_:
                if name not in X.columns:
                    raise InputError(where, "no such column", f"a column {name!r}")
            X = X[list(self.feature_names_in_)]
        return self._table(X, first=False)

    def _table(self, X: Any, first: bool) -> pd.DataFrame:
        """One column a factor, by name; by place ("x0", "x1", ...) where X has no names."""
        if isinstance(X, pd.DataFrame):
            _check_unique([str(name) for name in X.columns])
            validate_data(self, X, reset=first, skip_check_array=True)
            table = X.reset_index(drop=True)
        else:
            if isinstance(X, list | tuple):  # else one text would make texts of all numbers
                X = np.array(X, dtype=object)
            table = pd.DataFrame(validate_data(self, X, reset=first, dtype=None))
        return table.set_axis(self._names(), axis=1).infer_objects()

    def _names(self) -> list[str]:
        if hasattr(self, "feature_names_in_"):
            return [str(name) for name in self.feature_names_in_]
        return [f"x{place}" for place in range(self.n_features_in_)]

    @staticmethod
    def _exp(logs: Array) -> Array:
        return np.exp(np.clip(logs, -LOG_LIMIT, LOG_LIMIT))


def _check_unique(names: list[str]) -> None:
    for place, name in enumerate(names):
        if name in names[:place]:
            raise InputError("X", f"two columns {name!r}", "one column a factor")


def _plain(value: Any) -> Any:
    """A setting as JSON has it: NumPy's numbers as Python's."""
    return value.item() if isinstance(value, np.generic) else value


def _remembered(table: pd.DataFrame, target: Array, seed: int, most: int = 1000) -> dict[str, Any]:
    """Runs that a saved model keeps, to explain itself by: all of them, or a random thousand."""
    rows = np.sort(np.random.default_rng(seed).permutation(len(table))[:most])
    factors = {
        str(name): values.astype(float).tolist()
        if is_number(values)
        else as_levels(values).tolist()
        for name, values in table.iloc[rows].items()
    }
    return {"factors": factors, "target": target[rows].tolist(), "count": len(table)}
