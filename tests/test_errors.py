import copy

import pytest

from forerun.errors import (
    FactorError,
    ForerunError,
    ForerunWarning,
    InputError,
    LevelError,
    StudyError,
    TableError,
    one_line,
)


def test_says_where_what_was_found_and_what_was_expected() -> None:
    error = InputError("runs.csv, row 3, column seconds", "abc", "a number")
    assert str(error) == "runs.csv, row 3, column seconds: found abc, expected a number"
    assert (error.where, error.found, error.expected) == (
        "runs.csv, row 3, column seconds",
        "abc",
        "a number",
    )


def test_takes_one_plain_message() -> None:
    assert str(InputError("no runs in lenet.db")) == "no runs in lenet.db"


def test_is_one_line_whatever_the_value_holds() -> None:
    error = InputError("a\nb.db", "evil\r\n\x1b[2J\u2028end", "a name")
    assert str(error) == r"a\nb.db: found evil\r\n\x1b[2J\u2028end, expected a name"
    assert str(InputError("plain\nmessage")) == r"plain\nmessage"


def test_cuts_long_values_and_shows_empty_ones() -> None:
    assert str(InputError("x", "y" * 1000, "less")) == f"x: found {'y' * 79}…, expected less"
    assert str(InputError("x", "", "a name")) == "x: found '', expected a name"


@pytest.mark.parametrize("kind", [TableError, FactorError, StudyError, LevelError])
def test_every_kind_of_bad_input_is_an_input_error(kind: type[InputError]) -> None:
    assert issubclass(kind, InputError)
    assert issubclass(kind, ForerunError)
    assert issubclass(kind, ValueError)


def test_survives_a_copy_as_between_processes() -> None:
    error = copy.copy(FactorError("factor batch", -1, "a number above 0"))
    assert type(error) is FactorError
    assert str(error) == "factor batch: found -1, expected a number above 0"
    assert error.found == -1


def test_warnings_are_user_warnings() -> None:
    assert issubclass(ForerunWarning, UserWarning)


def test_one_line_keeps_what_prints() -> None:
    assert one_line("größe µs 批") == "größe µs 批"
