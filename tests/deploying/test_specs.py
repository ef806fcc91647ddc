"""From candidates to jobs."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from forerun.deploying.specs import job_spec, name_of
from forerun.errors import InputError
from forerun.jobs.spec import Container, JobSpec, Staging
from forerun.planning.modak import read_modak
from forerun.planning.planner import Plan, unmeasured
from forerun.planning.request import Request

if TYPE_CHECKING:
    from tests.deploying.conftest import MakeEstimate, MakePlan

UID = "0123456789abcdef" * 2
FOLDER = Path("/shared/run-1")


def spec_of(plan: Plan, **options: Any) -> JobSpec:
    return job_spec(plan, plan.chosen, FOLDER, UID, **options)


def test_the_command_is_filled_and_levers_are_pulled(
    make_plan: MakePlan, make_estimate: MakeEstimate
) -> None:
    plan = make_plan(
        {"batch": 64, "threads": 2, "affinity": "close"},
        application={"command": "python 'my train.py' --batch {batch}", "directory": "/app"},
        expected=make_estimate(100.0, memory=1e9),
    )
    spec = spec_of(plan)
    assert spec.words == ("python", "my train.py", "--batch", "64")
    assert spec.environment["OMP_NUM_THREADS"] == "2"
    assert spec.environment["OMP_PROC_BIND"] == "close"
    assert (spec.directory, spec.folder, spec.uid) == ("/app", "/shared/run-1", UID)
    assert (spec.name, spec.queue, spec.nodes, spec.cores) == ("toy", "cpu", 1, 2)
    assert spec.memory == 2_000_000_000
    assert spec.made_by[0].startswith("made by forerun ")
    assert (
        spec.made_by[-1] == "predicted to take 1 min 40 s; 90 % interval 1 min 30 s to 1 min 50 s"
    )


def test_a_variant_names_its_command(make_plan: MakePlan) -> None:
    commands = {"eager": "train {n}", "compiled": "train --compile {n}"}
    plan = make_plan(
        {"n": 1, "variant": "compiled"},
        factors=["n=1,2", "variant=eager,compiled"],
        application={"commands": commands},
    )
    assert spec_of(plan).words == ("train", "--compile", "1")
    other = make_plan({"n": 1, "variant": "gone"}, application={"commands": commands})
    with pytest.raises(InputError, match="variant gone: found none, expected one of eager"):
        spec_of(other)


def test_or_the_environment_of_a_compiler(make_plan: MakePlan) -> None:
    application = {"command": "train", "framework": "tensorflow"}
    plan = make_plan({"variant": "xla"}, factors=["variant=plain,xla"], application=application)
    assert "--tf_xla_auto_jit=2" in spec_of(plan).environment["TF_XLA_FLAGS"]
    application = {"command": "train", "framework": "pytorch"}
    plan = make_plan({"variant": "inductor"}, application=application)
    with pytest.raises(InputError, match=r"expected a command of its own: it needs torch\.compile"):
        spec_of(plan)


def test_a_factor_that_nothing_sets_is_refused(make_plan: MakePlan) -> None:
    plan = make_plan({"batch": 64}, factors=["batch=16,64"])
    with pytest.raises(InputError, match=r"factor batch: found no hole, expected a hole \{batch\}"):
        spec_of(plan)
    assert spec_of(make_plan({"batch": 64})).words == ("train",)  # it describes the program
    with pytest.raises(InputError, match=r"found the hole \{size\}, expected a factor of the plan"):
        spec_of(make_plan({"batch": 64}, application={"command": "train {size}"}))


@pytest.mark.parametrize(
    ("seconds", "wait", "job", "walltime"),
    [
        (1000.0, 0.0, {}, 1680.0),  # 1.5 times the upper end, in whole minutes
        (10.0, 0.0, {}, 300.0),
        (9000.0, 0.0, {}, 7200.0),  # the partition's limit
        (1000.0, 0.0, {"walltime": "90min"}, 5400.0),
        (None, 0.0, {}, 7200.0),
        (2000.0, 1000.0, {}, 1800.0),
    ],
)
def test_the_wall_time(
    seconds: float | None,
    wait: float,
    job: dict[str, Any],
    walltime: float,
    make_plan: MakePlan,
    make_estimate: MakeEstimate,
) -> None:
    expected = None if seconds is None else make_estimate(seconds, parts={"wait": wait})
    assert spec_of(make_plan({}, expected=expected, job=job)).walltime == walltime


def test_memory_is_asked_for_with_a_margin(
    make_plan: MakePlan, make_estimate: MakeEstimate
) -> None:
    gib = 2**30
    many = make_plan(
        {"workers": 4},
        application={"command": "train {workers}"},
        expected=make_estimate(memory=1.0 * gib),
    )
    assert spec_of(many).memory == 8 * gib
    assert (
        spec_of(make_plan({}, expected=make_estimate(memory=20.0 * gib))).memory is None
    )  # all of it
    told = make_plan({}, expected=make_estimate(memory=1.0 * gib), job={"memory": "5 GiB"})
    assert spec_of(told).memory == 5 * gib
    assert spec_of(make_plan({})).memory is None


def test_partitions_of_one_queue_are_told_apart_by_features(make_plan: MakePlan) -> None:
    spec = spec_of(make_plan({}, partition="slow", job={"features": ["ssd"]}))
    assert (spec.queue, spec.features) == ("batch", ("ssd", "v100"))
    assert spec_of(make_plan({})).features == ()
    assert spec_of(make_plan({}), scheduler="none").queue is None
    assert spec_of(make_plan({}), scheduler="kubernetes").queue is None


def test_a_host_that_is_the_name_of_a_feature_is_that(make_plan: MakePlan) -> None:
    spec = spec_of(make_plan({}, partition="slow", job={"hosts": ["v100", "n7"]}))
    assert (spec.features, spec.hosts) == (("v100",), ("n7",))
    elsewhere = spec_of(make_plan({}, job={"hosts": ["v100"]}))
    assert (elsewhere.features, elsewhere.hosts) == ((), ("v100",))


def test_data_is_staged_or_said_to_lie_somewhere(make_plan: MakePlan) -> None:
    data = {"size": "1 GB", "at": "home", "path": "mnist"}
    here = spec_of(make_plan({}, storage="home", data=data))
    assert (here.staging, here.environment) == (None, {"FORERUN_DATA": "/home/mnist"})
    there = spec_of(make_plan({}, storage="scratch", staged=True, data=data))
    assert there.staging == Staging("/home/mnist", f"/scratch/forerun-{UID}")
    assert there.environment == {}
    with pytest.raises(InputError, match=r"data\.path: found nothing, expected where it lies"):
        spec_of(make_plan({}, storage="scratch", staged=True, data={"size": "1 GB", "at": "home"}))


def test_an_image_is_run_by_the_infrastructures_runtime(
    tmp_path: Path, make_plan: MakePlan
) -> None:
    (tmp_path / "train.sif").touch()
    application = {"command": "train", "image": "train.sif", "directory": str(tmp_path)}
    found = spec_of(make_plan({}, application=application)).container
    assert found == Container(
        "apptainer", str(tmp_path / "train.sif"), ("/shared/run-1", str(tmp_path))
    )
    plan = make_plan({}, application=application)
    without = plan.infrastructure.model_copy(update={"container": "none"})
    with pytest.raises(InputError, match="container runtime of quad: found none"):
        spec_of(replace(plan, infrastructure=without))


def test_everything_of_the_job_reaches_it(make_plan: MakePlan) -> None:
    job = {
        "name": "mine",
        "processes": 2,
        "cores_per_process": 3,
        "memory_per_core": "1 GB",
        "hosts": ["n1"],
        "exclusive": True,
        "account": "group",
        "qos": "high",
        "array": "1-4",
        "after": "123",
        "begin": "2027-01-31T18:00",
        "output": "out.txt",
        "errors": "err.txt",
        "mail_to": "a@example.org",
        "mail_on": ["end", "fail"],
        "environment": True,
        "variables": ["LANG"],
        "prologue": "module load gcc\nulimit -c 0",
        "epilogue": "rm -r scratch",
        "requeues": 2,
    }
    application = {
        "command": "./a ${{HOME}} {{}}",
        "framework": "mpi",
        "source": "https://example.org/a.tar.gz",
        "build": "make -j 4",
        "expand": True,
    }
    spec = spec_of(make_plan({}, nodes=2, job=job, application=application))
    assert spec.words == ("./a", "${HOME}", "{}")
    assert spec.expand
    assert (spec.name, spec.launcher, spec.nodes, spec.processes, spec.cores) == (
        "mine",
        "mpi",
        2,
        2,
        3,
    )
    assert (spec.memory_per_core, spec.hosts, spec.exclusive) == (10**9, ("n1",), True)
    assert (spec.account, spec.qos, spec.array, spec.after) == ("group", "high", "1-4", "123")
    assert (spec.begin, spec.output, spec.errors) == ("2027-01-31T18:00", "out.txt", "err.txt")
    assert (spec.mail_to, spec.mail_on) == ("a@example.org", ("end", "fail"))
    assert (spec.copy_environment, spec.variables) == (True, ("LANG",))
    assert spec.prologue == (("module", "load", "gcc"), ("ulimit", "-c", "0"))
    assert (spec.epilogue, spec.build) == ((("rm", "-r", "scratch"),), (("make", "-j", "4"),))
    assert (spec.source, spec.requeues) == ("https://example.org/a.tar.gz", 2)


@pytest.mark.parametrize("name", ["output", "errors"])
@pytest.mark.parametrize(
    "path", ["/home/ada/.ssh/authorized_keys", "../x", "a/../../x", "/shared/run-1/../x"]
)
def test_what_it_prints_stays_in_its_folder(make_plan: MakePlan, name: str, path: str) -> None:
    with pytest.raises(InputError, match=f"job.{name}: found .* expected a file in the job's"):
        spec_of(make_plan({}, job={name: path}))
    inside = spec_of(make_plan({}, job={name: "/shared/run-1/logs/a..b.txt"}))
    assert getattr(inside, name) == "logs/a..b.txt"


def test_a_shell_in_what_goes_before_is_refused(make_plan: MakePlan) -> None:
    with pytest.raises(InputError, match=r"job.prologue: found \|, expected plain commands"):
        spec_of(make_plan({}, job={"prologue": "cat a | sh"}))


def test_names_that_no_scheduler_takes_are_made_plain() -> None:
    def named(request: str, job: str = "job") -> str:
        given = {"name": request, "application": {"command": "a"}, "job": {"name": job}}
        return name_of(Request.model_validate(given))

    assert named("LeNet, 5×5") == "LeNet-5-5"
    assert named("-++") == "job"
    assert named("x" * 99) == "x" * 64
    assert named("a", "mine") == "mine"


MPI = {
    "job_options": {
        "job_name": "mpi_test",
        "wall_time_limit": "1:00:00 ",
        "node_count": 2,
        "process_count_per_node": 4,
        "standard_output_file": "mpi.out",
        "request_event_notification": "abe",
        "email_address": "user@example.org",
        "queue": "cpu",
    },
    "target": {"job_scheduler_type": "slurm"},
    "application": {
        "executable": "${ROOT}/bin/solver ",
        "arguments": "--in ${ROOT}/a \\\n--mode=x",
        "app_type": "hpc",
        "mpi_ranks": 8,
        "threads": 2,
        "build": {"src": "https://example.org/a.c", "build_command": "mpicc -o solver a.c\n"},
    },
}


def test_a_request_of_modaks_becomes_a_job(tmp_path: Path, make_plan: MakePlan) -> None:
    file = tmp_path / "request.json"
    file.write_text(json.dumps({"job": MPI}))
    plan = unmeasured(read_modak(file), make_plan({}).infrastructure)
    spec = spec_of(plan)
    assert spec.words == ("${ROOT}/bin/solver", "--in", "${ROOT}/a", "--mode=x")
    assert spec.expand
    assert (spec.launcher, spec.nodes, spec.processes, spec.cores) == ("mpi", 2, 4, 2)
    assert spec.environment["OMP_NUM_THREADS"] == "2"
    assert (spec.walltime, spec.queue, spec.output) == (3600.0, "cpu", "mpi.out")
    assert spec.build == (("mpicc", "-o", "solver", "a.c"),)
    assert spec.directory == ""  # what is built lies in the folder of the job
    assert spec.mail_on == ("fail", "begin", "end")
