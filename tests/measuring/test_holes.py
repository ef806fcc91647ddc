import json
import shlex
import subprocess
import sys
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forerun.errors import InputError
from forerun.factors import Factor, Space, Value
from forerun.measuring.holes import Template, Text, check_holes

SPACE = Space(
    [
        Factor("batch", values=(16, 32)),
        Factor("rate", values=(0.001, 0.1)),
        Factor("name", "categorical", values=("relu", "leaky relu")),
    ]
)
# What a level may hold: anything but control characters.
LEVELS = st.text(
    st.characters(exclude_categories=("Cc", "Cs"), exclude_characters="\u2028\u2029"), max_size=20
)


def test_a_command_is_split_into_words_and_filled() -> None:
    template = Template.parse("python train.py --batch {batch} --rate={rate} 'two words' {name}")
    assert template.holes == ("batch", "rate", "name")
    point: dict[str, Value] = {"batch": 16, "rate": 1e-5, "name": "leaky relu"}
    assert template.fill(point) == (
        *("python", "train.py", "--batch", "16", "--rate=1e-05", "two words", "leaky relu"),
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("awk '{{print $1}}' {batch}", ("awk", "{print $1}", "8")),
        ("echo {{{batch}}}", ("echo", "{8}")),
        ("echo {{batch}}", ("echo", "{batch}")),
        ("echo '{ batch }x{batch}'", ("echo", "8x8")),
        ("größe -ü={batch}", ("größe", "-ü=8")),
    ],
)
def test_double_braces_are_braces(text: str, words: tuple[str, ...]) -> None:
    assert Template.parse(text).fill({"batch": 8}) == words


def test_a_name_with_spaces_needs_quotes_around_its_word() -> None:
    assert Template.parse("x '{batch size}'").fill({"batch size": 8}) == ("x", "8")
    with pytest.raises(InputError, match=r"expected {name} with the name of a factor"):
        Template.parse("x {batch size}")


@pytest.mark.parametrize("value", ["-x", "--help", "", "a b", "$(id)", "'", '"', "`id`", "größe"])
def test_a_value_is_one_argument_whatever_it_holds(value: str) -> None:
    assert Template.parse("prog {name} --a={name}").fill({"name": value}) == (
        *("prog", value, f"--a={value}"),
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "command: found '', expected a program and its arguments"),
        ("  ", "expected a program and its arguments"),
        ("''", "expected a program and its arguments"),
        ("echo 'half", "expected closed quotes"),
        ("echo {batch", "expected {name} with the name of a factor, or {{ and }} for braces"),
        ("echo batch}", "expected {name} with the name of a factor, or {{ and }} for braces"),
        ("echo {}", "expected {name} with the name of a factor, or {{ and }} for braces"),
        ("echo {a{b}}", "expected {name} with the name of a factor, or {{ and }} for braces"),
        ("echo\nrm", "expected a text without control characters"),
    ],
)
def test_a_text_that_is_no_command_is_refused(text: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        Template.parse(text)
    assert message in str(caught.value)


def test_every_hole_is_a_factor_and_every_factor_has_a_hole() -> None:
    check_holes([Template.parse("x {batch} {rate} {name}")], SPACE)
    with pytest.raises(InputError, match=r"the hole {bach}, expected a factor \(batch, rate, name"):
        check_holes([Template.parse("x {bach} {rate} {name}")], SPACE)
    with pytest.raises(InputError, match=r"factor rate: found no hole, expected a hole {rate} in"):
        check_holes([Template.parse("x {batch} {name}")], SPACE)


def test_the_factor_variant_needs_no_hole() -> None:
    space = Space([Factor("variant", "categorical", values=("a", "b"))])
    check_holes([Template.parse("x")], space)


def test_a_lever_needs_no_hole_and_is_none_where_it_has_one() -> None:
    space = Space([Factor.parse("threads=1,2"), Factor.parse("precision=float32,bfloat16")])
    assert check_holes([Template.parse("x")], space) == ("threads", "precision")
    assert check_holes([Template.parse("x {threads}")], space) == ("precision",)
    assert check_holes([Template.parse("x {threads}"), Text("{precision}")], space) == ()
    assert check_holes([Template.parse("x")], Space([Factor.parse("threads=1", True)])) == ()
    with pytest.raises(InputError, match="precision: found fp8, expected one of float32, tf32, b"):
        check_holes([Template.parse("x")], Space([Factor.parse("precision=float32,fp8")]))
    check_holes([Template.parse("x {precision}")], Space([Factor.parse("precision=fp8")]))


def test_a_hole_may_be_in_any_of_a_programs_texts() -> None:
    check_holes([Template.parse("x {batch}"), Text("{rate}"), Text("{name}")], SPACE)
    assert Text("a {{b}} {rate}").fill({"rate": 0.5}) == "a {b} 0.5"


@pytest.mark.parametrize(
    "value", ["a b", "$(touch x)", "`touch x`", "'; touch x; '", '"', "\\", "*", "~", "-n", "", "#"]
)
def test_a_shell_reads_a_value_as_one_word(value: str) -> None:
    words = Template.parse("printf '<%s>' {name} | cat", shell=True).fill({"name": value})
    assert words[:2] == ("/bin/sh", "-c")
    said = subprocess.run(words, capture_output=True, text=True, check=True)
    assert said.stdout == f"<{value}>"


@given(LEVELS, LEVELS)
def test_quoted_values_are_what_they_were(one: str, two: str) -> None:
    words = Template.parse("prog x={one}{two} {two}", shell=True).fill({"one": one, "two": two})
    assert shlex.split(words[2]) == ["prog", f"x={one}{two}", two]


@settings(max_examples=20, deadline=None)
@given(st.lists(LEVELS, min_size=1, max_size=5))
def test_no_value_reaches_the_shell_as_code(values: list[str]) -> None:
    names = [f"v{i}" for i in range(len(values))]
    program = "import sys, json; print(json.dumps(sys.argv[1:]))"
    text = f"{sys.executable} -ISc {shlex.quote(program)} {' '.join(f'{{{n}}}' for n in names)}"
    words = Template.parse(text, shell=True).fill(dict(zip(names, values, strict=True)))
    said = subprocess.run(words, capture_output=True, text=True, check=True)
    assert json.loads(said.stdout) == values


@pytest.mark.parametrize(
    "text",
    [
        'echo "{name}"',
        "echo '{name}'",
        "echo `cat {name}`",
        "echo $(( {name} + 1 ))",
        "echo \\{name}",
        "echo \"$(cat '{name}')\"",
        'echo "$(basename "{name}")"',
        'echo "${{V:-"{name}"}}"',
        'echo "$(basename {name})"',
        "echo $'it\\'s {name}'",
        "echo $[ {name} ]",
        "eval echo {name}",
        "A=b eval echo {name}",
        "if true; then eval echo {name}; fi",
        "true|sh -c {name}",
        "bash -ce {name}",
    ],
)
def test_where_quotes_would_not_help_only_harmless_values_are_let_in(text: str) -> None:
    template = Template.parse(text, shell=True)
    filled = text.replace("{name}", "16").replace("{{", "{").replace("}}", "}")
    assert template.fill({"name": "16"})[2] == filled
    with pytest.raises(InputError, match="expected a value that a shell reads as it stands"):
        template.fill({"name": "$(touch x)"})


def test_a_script_for_a_shell_without_the_option_takes_harmless_values_only() -> None:
    template = Template.parse("env A=b bash -ec 'train {name} {batch}'")
    filled = template.fill({"name": "relu", "batch": 16})
    assert filled == ("env", "A=b", "bash", "-ec", "train relu 16")
    with pytest.raises(InputError, match=r"{name}: found a;b, expected a value that a shell"):
        template.fill({"name": "a;b", "batch": 16})
    argument = Template.parse("bash -c 'train \"$1\"' bash {name}")
    assert argument.fill({"name": "a;b"})[-1] == "a;b"


@pytest.mark.parametrize(
    "text",
    [
        "bash -ce 'echo {name}'",
        "bash -c -- 'echo {name}'",
        "bash -c -o pipefail 'echo {name}'",
        "bash -c 'exec \"$@\"' _ sh -c 'echo {name}'",
        "su -c 'echo {name}' root",
        "su root '-cecho {name}'",
        "su root --command='echo {name}'",
        "script -qc 'echo {name}' log",
        "timeout 9 busybox sh -c 'echo {name}'",
        "ssh host echo {name}",
    ],
)
def test_no_value_goes_through_a_shell_that_a_command_starts(text: str) -> None:
    template = Template.parse(text)
    assert "16" in " ".join(template.fill({"name": "16"}))
    with pytest.raises(InputError, match="expected a value that a shell reads as it stands"):
        template.fill({"name": "$(touch x)"})


@pytest.mark.parametrize(
    "text",
    [
        'test -n "$HOME" && echo {name}',
        "cd ${{HOME}} && echo {name}",
        "echo $(basename {name})",
        'echo "\\$(" {name}',
        "python train.py eval {name}",
        "bash -c 'echo \"$1\"' _ {name}",
    ],
)
def test_elsewhere_a_shell_takes_any_value_in_quotes(text: str) -> None:
    filled = Template.parse(text, shell=True).fill({"name": "$(touch x)"})[2]
    assert "'$(touch x)'" in filled


def test_a_number_before_a_redirection_would_be_none_of_the_arguments() -> None:
    with pytest.raises(InputError, match=r"found {batch}>, expected a space between"):
        Template.parse("train {batch}>log", shell=True)
    assert Template.parse("train {batch} >log", shell=True).fill({"batch": 2})[2] == "train 2 >log"


def test_values_that_do_not_fit_are_found_before_the_first_run() -> None:
    with pytest.raises(InputError, match="found leaky relu, expected a value that a shell reads"):
        check_holes([Template.parse('x {batch} {rate} "{name}"', shell=True)], SPACE)


def test_a_shells_variable_is_no_hole() -> None:
    with pytest.raises(InputError, match=r"expected {batch} for the factor, \${{batch}} for a var"):
        Template.parse("echo ${batch}", shell=True)
    words = Template.parse("echo ${{HOME}} {batch}", shell=True).fill({"batch": 1})
    assert words[2] == "echo ${HOME} 1"


def test_an_intrinsic_factor_of_one_value_describes_the_program() -> None:
    macs = Factor("macs", scope="intrinsic", values=(416_520,))
    template = Template.parse("train {batch}")
    check_holes([template], Space([Factor("batch", values=(16, 32)), macs]))
    for other in (replace(macs, values=(1, 2)), replace(macs, scope="extrinsic")):
        with pytest.raises(InputError, match="factor macs: found no hole"):
            check_holes([template], Space([Factor("batch", values=(16, 32)), other]))


@pytest.mark.parametrize("command", ["run {n} > out.txt", "run {n} | tee log", "cd a && run {n}"])
def test_what_only_a_shell_understands_is_not_handed_on(command: str) -> None:
    with pytest.raises(InputError, match="expected quotes around it, or --shell"):
        Template.parse(command)
    assert Template.parse(command, shell=True).holes == ("n",)


@pytest.mark.parametrize("command", ["run {n} '>' 'a | b'", "sh -c 'run > out.txt' {n}"])
def test_a_shells_signs_in_quotes_are_arguments(command: str) -> None:
    assert Template.parse(command).holes == ("n",)


def test_what_a_place_sees_to_needs_no_hole() -> None:
    space = Space([Factor.parse("batch=1,2"), Factor.parse("nodes=1,2")])
    with pytest.raises(InputError, match="factor nodes: found no hole"):
        check_holes([Template.parse("train {batch}")], space)
    assert check_holes([Template.parse("train {batch}")], space, {"nodes"}) == ()
    with pytest.raises(InputError, match="factor batch: found no hole"):
        check_holes([Template.parse("train")], space, {"nodes"})
