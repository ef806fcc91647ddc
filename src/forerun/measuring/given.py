"""A factor as somebody writes it down, in a study file or by flags."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict

from forerun.errors import FactorError
from forerun.factors import Factor, Kind, Scope, guess_role


class GivenFactor(BaseModel):
    """The values, as a text (`16..256`, `relu,tanh`) or listed, and what else is said of them."""

    model_config = ConfigDict(extra="forbid", strict=True)

    values: Any  # checked where the factor's name is known
    intrinsic: bool = False
    categorical: bool = False  # numbers that are only names
    unit: str = ""
    role: str | None = None

    def factor(self, name: str) -> Factor:
        """The factor of that name; FactorError if its values or its role are none."""
        values, kind = self._read(name)
        role: Any = self.role or guess_role(name, kind)
        scope: Scope = "intrinsic" if self.intrinsic else "extrinsic"
        return Factor(name, kind, scope, self.unit, role, tuple(values))

    def _read(self, name: str) -> tuple[list[Any], Kind]:
        if isinstance(self.values, str):
            if self.categorical:
                levels = [item.strip() for item in self.values.split(",")]
                if not all(levels):
                    raise FactorError(f"factor {name}", "an empty value", "levels such as a,b")
                return levels, "categorical"
            parsed = Factor.parse(f"{name}={self.values}")
            return list(parsed.values), parsed.kind
        values = self.values if isinstance(self.values, list) else [self.values]
        numbers = [type(value) in (int, float) for value in values]
        if not values or not all(isinstance(value, str | int | float) for value in values):
            raise FactorError(f"factor {name}", self.values, "a text, or a list of values")
        if any(numbers) and not all(numbers) and not self.categorical:
            raise FactorError(f"factor {name}", self.values, "only numbers or only categories")
        return values, "numeric" if all(numbers) and not self.categorical else "categorical"
