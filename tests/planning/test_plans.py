"""Plans that are written and read back."""

import json
from pathlib import Path
from typing import Any

import pytest

from forerun.errors import InputError
from forerun.factors import Factor, Space
from forerun.infrastructure import Infrastructure
from forerun.planning.planner import Plan, plan, unmeasured
from forerun.planning.plans import digest_of, read_plan, write_plan
from forerun.planning.request import Request
from forerun.study import Run, Study

SPACE = Space([Factor.parse("batch=16,32,64"), Factor.parse("workers=1,2,4")])
CLUSTER = Infrastructure.model_validate(
    {
        "name": "pair",
        "scheduler": "slurm",
        "partitions": {
            "cpu": {
                "nodes": 2,
                "processors": {"microarchitecture": "zen3", "cores": 2},
                "memory": "8 GiB",
                "price": {"node": 1.5},
                "limits": {"walltime": "1h"},
            }
        },
        "storage": {"home": {"bandwidth": "100 MB/s", "path": "/home"}},
    }
)


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state"


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Study:
    made = Study.create(tmp_path_factory.mktemp("plans") / "s.db", SPACE)
    for point in SPACE.grid():
        seconds = 1 + float(point["batch"]) / float(point["workers"])
        made.add(Run(point, {"seconds": seconds, "memory_bytes": 1e8}))
    return made


def request(study: Path | None, **changes: Any) -> Request:
    given = {
        "name": "toy",
        "application": {"command": "train {batch} {workers}", "directory": "here"},
        "study": None if study is None else str(study),
        "fixed": {"batch": "64"},
        "data": {"size": "1 GB", "path": "/home/data"},
        **changes,
    }
    return Request.model_validate(given)


@pytest.fixture
def made(study: Study) -> Plan:
    return plan(request(study.path), CLUSTER, study)


def test_what_is_written_is_read_back(
    made: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_plan(made, tmp_path / "plan.json")
    digest = digest_of(made)
    monkeypatch.chdir("/")  # paths are absolute
    found = read_plan(tmp_path / "plan.json")
    assert found.is_ours
    assert found.plan.infrastructure == CLUSTER
    assert found.plan.request.study == made.request.study
    assert found.plan.request.application.directory == str(tmp_path / "here")
    assert found.plan.space == made.space
    assert [one.candidate for one in found.plan.considered] == [
        one.candidate for one in made.considered
    ]
    assert found.plan.chosen.estimate == made.chosen.estimate
    assert (found.plan.runs, found.plan.count) == (9, made.count)
    assert digest_of(found.plan) == digest


def test_a_plan_without_a_study_too(tmp_path: Path) -> None:
    write_plan(unmeasured(request(None, free={"workers": "1,2"}), CLUSTER), tmp_path / "p.json")
    found = read_plan(tmp_path / "p.json").plan
    assert found.chosen.estimate is None
    assert [one.candidate.point["workers"] for one in found.considered] == [1, 2]


def test_it_is_ours_until_it_says_something_else(made: Plan, tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    write_plan(made, file)
    document = json.loads(file.read_text())
    file.write_text(json.dumps(dict(reversed(document.items()))))  # only its form
    assert read_plan(file).is_ours
    document["request"]["application"]["command"] = "rm -r {batch} {workers}"
    file.write_text(json.dumps(document))
    assert not read_plan(file).is_ours
    for seal in (None, "", 3, ["x"], "é"):
        file.write_text(json.dumps({**document, "seal": seal}))
        assert not read_plan(file).is_ours


def test_another_users_plan_is_not_ours(
    made: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_plan(made, tmp_path / "plan.json")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "other"))
    assert not read_plan(tmp_path / "plan.json").is_ours


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"format": 99}, "found format 99, expected 1 at most; a newer forerun"),
        ({"format": None}, "found a plan of an earlier forerun"),
        ({"format": "x"}, "format: found x"),
        ({"candidates": []}, "candidates: found list"),
        ({"candidates": [{}]}, "candidates.0.point: found none"),
        ({"request": {}}, "request.application: found none"),
        ({"infrastructure": {"name": "x"}}, "found dict, expected partitions or boards"),
        ({"factors": []}, "candidate 1: point: found batch"),
        ({"factors": [{"name": 3}]}, "found damage"),
        ({"chosen": 4}, "chosen: found 4"),
        ({"more": 1}, "more: found a field of that name"),
        ({"pays": [{"steps": float("nan")}]}, "found a number that is not finite"),
    ],
)
def test_damage_is_told_in_one_line(
    made: Plan, tmp_path: Path, change: dict[str, Any], told: str
) -> None:
    file = tmp_path / "plan.json"
    file.write_text(json.dumps({**made.to_dict(), **change}))
    with pytest.raises(InputError) as error:
        read_plan(file)
    assert told in str(error.value)
    assert str(file) in str(error.value)


@pytest.mark.parametrize(
    ("where", "value", "told"),
    [
        ("partition", "gpu", "candidate 1, partition: found gpu, expected one of cpu"),
        ("storage", "tape", "candidate 1, storage: found tape, expected one of home"),
        ("seconds", float("nan"), "candidates.0.seconds: found nan"),
        ("nodes", 0, "candidates.0.nodes: found 0"),
        ("high", 1.7e308, "candidates.0.high: found 1.7e+308"),
        ("memory_bytes", 1.7e308, "candidates.0.memory_bytes: found 1.7e+308"),
        ("parts", {"run": 1.7e308}, "candidates.0.parts.run: found 1.7e+308"),
    ],
)
def test_so_is_a_candidate_that_cannot_be(
    made: Plan, tmp_path: Path, where: str, value: object, told: str
) -> None:
    document = made.to_dict()
    document["candidates"][0][where] = value
    file = tmp_path / "plan.json"
    file.write_text(json.dumps(document))
    with pytest.raises(InputError) as error:
        read_plan(file)
    assert told in str(error.value)


def test_so_is_data_that_lies_nowhere(made: Plan, tmp_path: Path) -> None:
    document = made.to_dict()
    document["request"]["data"]["at"] = "tape"
    (tmp_path / "plan.json").write_text(json.dumps(document))
    with pytest.raises(InputError, match=r"request.data.at: found tape, expected one of home"):
        read_plan(tmp_path / "plan.json")


def test_what_is_no_plan_is_none(tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    for text, told in (("{}", "no plan"), ("[]", "a JSON object"), ("{", "JSON")):
        file.write_text(text)
        with pytest.raises(InputError, match=told):
            read_plan(file)
