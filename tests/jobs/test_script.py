"""Scripts as they are written; `test_script_runs.py` runs them."""

from __future__ import annotations

import difflib
import os
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from job_specs import AGAIN, FULL, GIB, GPU, PLAIN, SPECS, TORCHRUN, UID

from forerun.errors import InputError
from forerun.jobs.directives import directives
from forerun.jobs.script import Scheduler, _environment, render
from forerun.jobs.spec import Container, JobSpec, Staging

GOLDEN = Path(__file__).parent / "golden"
# Set this to write the golden files anew, and read what git says of them.
REWRITE = "FORERUN_REWRITE_GOLDEN"
KINDS = [(name, scheduler) for name, (_, all_of) in SPECS.items() for scheduler in all_of]


def options(spec: JobSpec, scheduler: Scheduler) -> list[str]:
    """What the scheduler is told, without what stands before each."""
    start = {"slurm": "#SBATCH --", "pbs": "#PBS -", "none": "#"}[scheduler]
    return [line.removeprefix(start) for line in directives(spec, scheduler)]


@pytest.mark.parametrize(("name", "scheduler"), KINDS)
def test_scripts_are_as_they_were(name: str, scheduler: Scheduler) -> None:
    path = GOLDEN / f"{name}.{scheduler}.sh"
    script = render(SPECS[name][0], scheduler)
    if os.environ.get(REWRITE):
        path.parent.mkdir(exist_ok=True)
        path.write_text(script)
    kept = path.read_text().splitlines()
    found = "\n".join(difflib.unified_diff(kept, script.splitlines(), str(path), "now", n=2))
    assert not found, f"{found}\n\nif that is meant: {REWRITE}=1"


def test_no_golden_file_is_left_over() -> None:
    assert {path.name for path in GOLDEN.glob("*.sh")} == {f"{a}.{b}.sh" for a, b in KINDS}


@pytest.mark.parametrize(("name", "scheduler"), KINDS)
def test_bash_reads_every_script(name: str, scheduler: Scheduler) -> None:
    script = render(SPECS[name][0], scheduler)
    done = subprocess.run(["bash", "-n"], input=script, text=True, capture_output=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert script.startswith("#!/bin/bash\n")
    assert "\nset -euo pipefail\n" in script
    assert script.endswith("\n")
    assert not script.endswith("\n\n")
    assert "\n\n\n" not in script


def test_the_head_says_what_made_it() -> None:
    head = render(PLAIN, "slurm").split("\n#SBATCH")[0].splitlines()
    assert head[1:5] == [
        "# lenet: a job for Slurm. Read it, keep it, change it.",
        "# Made by forerun 0.1.0 from plan 1a2b3c of lenet.",
        "# Predicted: 5 min, 4 to 6 min.",
        f"# forerun uid {UID}",
    ]


def test_slurm_is_told_everything() -> None:
    assert options(FULL, "slurm") == [
        "job-name=all-options",
        f"comment=forerun:{UID}",
        "chdir=/shared/jobs/all-options",
        "output=/shared/jobs/all-options/train.out.%a",
        "error=/shared/jobs/all-options/train.err.%a",
        "open-mode=append",
        "requeue",
        "nodes=1",
        "ntasks-per-node=1",
        "cpus-per-task=4",
        "gres=gpu:2",
        "mem=16384M",
        "time=1-01:01:02",
        "partition=normal",
        "constraint=mc&ssd",
        "nodelist=n1",
        "exclusive",
        "account=project-1",
        "qos=high",
        "array=1,4-8:2%2",
        "dependency=afterok:41",
        "begin=2027-01-31T18:00",
        "mail-user=user@example.org",
        "mail-type=BEGIN,END,FAIL",
        "export=EDITOR,LANG",
    ]


def test_torque_is_told_everything() -> None:
    assert options(FULL, "pbs") == [
        "N all-options",
        "S /bin/bash",
        "o /shared/jobs/all-options/scheduler.out",
        "j oe",
        "r y",
        "l nodes=n1:ppn=4:gpus=2:mc:ssd",
        "l mem=16384mb",
        "l walltime=25:01:02",
        "l naccesspolicy=singlejob",
        "l qos=high",
        "q normal",
        "A project-1",
        "t 1,4,6,8%2",
        "W depend=afterok:41",
        "a 202701311800",
        "M user@example.org",
        "m abe",
        f"v FORERUN_UID={UID},EDITOR,LANG",
    ]


def test_a_qsub_that_stands_before_slurm_spreads_slots_evenly() -> None:
    lines = directives(replace(PLAIN, nodes=2, processes=2, cores=3), "pbs")
    assert "#PBS -l nodes=2:ppn=6" in lines
    assert lines[-1] == "#SBATCH --ntasks-per-node=6"


def test_nobody_is_told_where_there_is_no_scheduler() -> None:
    assert directives(PLAIN, "none") == []


@pytest.mark.parametrize(
    ("changes", "slurm", "pbs"),
    [
        ({"mail_to": "a@b.org", "mail_on": ("end",)}, "mail-type=END", "m e"),
        ({"mail_to": "a@b.org"}, "mail-user=a@b.org", "m n"),
        ({"walltime": 59.2}, "time=00:01:00", "l walltime=00:01:00"),
        ({"walltime": 100 * 3600}, "time=4-04:00:00", "l walltime=100:00:00"),
        ({"copy_environment": True}, "export=ALL", "V"),
        ({}, "export=NONE", f"v FORERUN_UID={UID}"),
        ({"memory_per_core": GIB + 1, "cores": 2}, "mem-per-cpu=1025M", "l mem=2049mb"),
        ({"memory": GIB, "memory_per_core": GIB, "cores": 2}, "mem=2048M", "l mem=2048mb"),
        ({"memory": GIB, "nodes": 3}, "mem=1024M", "l mem=3072mb"),
        ({"accelerators": 1, "accelerator": "fpga"}, "gres=fpga:1", "l nodes=1:ppn=1:gpus=1"),
        ({"begin": "2027-01-31T18:00:05"}, "begin=2027-01-31T18:00:05", "a 202701311800.05"),
        ({"array": "0-4:2"}, "array=0-4:2", "t 0,2,4"),
        ({"nodes": 3, "hosts": ("a", "b")}, "nodelist=a,b", "l nodes=a:ppn=1+b:ppn=1+1:ppn=1"),
        (
            {"name": "1-job-with-a-long-name"},
            "job-name=1-job-with-a-long-name",
            "N j1-job-with-a-l",
        ),
    ],
)
def test_each_scheduler_has_words_of_its_own(changes: dict[str, Any], slurm: str, pbs: str) -> None:
    spec = replace(PLAIN, **changes)
    assert slurm in options(spec, "slurm")
    assert pbs in options(spec, "pbs")


def test_an_array_is_written_out_up_to_a_limit() -> None:
    (line,) = [one for one in options(replace(PLAIN, array="0-9999:1"), "pbs") if one[0] == "t"]
    assert line.removeprefix("t ").split(",") == [str(number) for number in range(10_000)]


def test_a_folder_with_blanks_is_one_word_for_slurm() -> None:
    spec = replace(PLAIN, folder="/my jobs/a")
    assert 'output="/my jobs/a/job.out"' in options(spec, "slurm")
    assert "forerun_folder='/my jobs/a'\n" in render(spec, "slurm")


def test_the_warning_comes_before_the_end_and_not_at_once() -> None:
    assert "signal=B:USR1@120" in options(AGAIN, "slurm")
    assert "signal=B:USR1@30" in options(replace(AGAIN, walltime=60.0), "slurm")
    assert not [one for one in options(PLAIN, "slurm") if one.startswith("signal")]


def test_a_lost_node_does_not_lose_the_job() -> None:
    assert "requeue" in options(PLAIN, "slurm")
    assert "r y" in options(PLAIN, "pbs")


@pytest.mark.parametrize(
    ("changes", "scheduler", "field"),
    [
        ({"array": "1-3"}, "none", "array"),
        ({"after": "41"}, "none", "after"),
        ({"begin": "2027-01-31T18:00"}, "none", "begin"),
        ({"nodes": 2}, "none", "nodes"),
        ({"after": "41.host"}, "slurm", "after"),
        ({"after": "41_2"}, "pbs", "after"),
        ({"folder": "/a b"}, "pbs", "folder"),
        ({"folder": "/host:b"}, "pbs", "folder"),
        ({"features": ("a+9:ppn=99",)}, "pbs", "features"),
        ({"hosts": ("9",)}, "pbs", "hosts"),
        ({"hosts": ("a", "b")}, "slurm", "hosts"),
        ({"variables": ("ALL",)}, "slurm", "variables"),
        ({"array": "0-9999999:1"}, "pbs", "array"),
        ({"array": ",".join(["0-9999999:1000"] * 2)}, "pbs", "array"),
        ({"nodes": 2, "requeues": 1}, "pbs", "requeues"),
        ({"nodes": 2, "requeues": 1, "launcher": "torchrun"}, "pbs", "requeues"),
        ({"environment": {"UID": "1"}}, "none", "variable"),
        ({"environment": {"FORERUN_ATTEMPT": "1"}}, "none", "variable"),
        ({"environment": {"forerun_folder": "1"}}, "none", "variable"),
        ({"words": ("-x",)}, "none", "command"),
        ({"prologue": (("",),)}, "none", "command"),
        ({"build": (("make",),)}, "none", "source"),
        ({"source": "ext::sh -c x", "build": (("make",),)}, "none", "source"),
        ({"source": "http://example.org/a.tar"}, "none", "source"),
        ({"source": "ssh://-oProxyCommand=x/a.git"}, "none", "source"),
        ({"staging": Staging("data", "/x")}, "none", "staging"),
        ({"staging": Staging("/data", "/x/")}, "none", "staging"),
        ({"container": Container("apptainer", "-x")}, "none", "image"),
        ({"container": Container("docker", "x", ("/a:/b",))}, "none", "bind"),
    ],
)
def test_what_would_be_done_otherwise_is_refused(
    changes: dict[str, Any], scheduler: Scheduler, field: str
) -> None:
    with pytest.raises(InputError) as refused:
        render(replace(PLAIN, **changes), scheduler)
    assert refused.value.where.startswith("job, ")
    assert field in refused.value.where


def test_an_unknown_scheduler_is_refused_with_those_that_are_known() -> None:
    with pytest.raises(InputError, match="one of slurm, pbs, none"):
        render(PLAIN, "lsf")  # type: ignore[arg-type]


def line_with(text: str, spec: JobSpec, scheduler: Scheduler) -> str:
    """The one line of a script that has this text."""
    (line,) = [line for line in render(spec, scheduler).splitlines() if text in line]
    return line.strip()


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("python", "train.py", "-x"), "python -m torch.distributed.run @ train.py -x"),
        (("/opt/bin/python3.11", "t.py"), "/opt/bin/python3.11 -m torch.distributed.run @ t.py"),
        (("python", "-m", "app", "x"), "python -m torch.distributed.run @ -m app x"),
        (("python", "-u", "t.py"), "python -m torch.distributed.run @ --no_python python -u t.py"),
        (("./train",), "python3 -m torch.distributed.run @ --no_python ./train"),
    ],
)
def test_torchrun_takes_the_place_of_python(words: tuple[str, ...], expected: str) -> None:
    spec = replace(TORCHRUN, nodes=1, words=words)
    line = line_with("torch.distributed.run", spec, "slurm")
    shown = expected.replace("@", "--nnodes=1 --nproc_per_node=2 --standalone")
    assert line == f"local -a program=({shown})"


def test_torchrun_is_one_task_a_node_with_the_cores_of_all() -> None:
    assert {"nodes=2", "ntasks-per-node=1", "cpus-per-task=6"} <= set(options(TORCHRUN, "slurm"))
    line = line_with("srun --", TORCHRUN, "slurm")
    assert line.startswith("srun --nodes=2 --ntasks=2 --ntasks-per-node=1 --cpus-per-task=6 ")
    program = line_with("torch.distributed.run", TORCHRUN, "slurm")
    assert '--node_rank="${FORERUN_NODE:-${SLURM_NODEID:-0}}"' in program
    assert '--master_addr="${FORERUN_HOSTS%% *}" --master_port="$FORERUN_PORT"' in program


def test_one_process_needs_no_srun_and_several_do() -> None:
    assert "srun -" not in render(PLAIN, "slurm")
    assert "srun --nodes=1 --ntasks=3" in render(replace(PLAIN, processes=3), "slurm")
    assert "srun --nodes=1 --ntasks=1" in render(replace(PLAIN, launcher="mpi"), "slurm")


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("https://example.org/a.git", "git clone --quiet --depth 1 -- https://example.org/a.git"),
        ("git+https://example.org/a", "git clone --quiet --depth 1 -- https://example.org/a"),
        ("git@example.org:a/b", "git clone --quiet --depth 1 -- git@example.org:a/b"),
        ("ssh://git@example.org/a", "git clone --quiet --depth 1 -- ssh://git@example.org/a"),
        ("https://example.org/a.tgz?x=1", "--url 'https://example.org/a.tgz?x=1'"),
        ("https://example.org/a.c", '--output "$forerun_source/"a.c --url'),
        ("https://example.org/", '--output "$forerun_source/"download --url'),
        ("/shared/code", "forerun_source=/shared/code\n"),
    ],
)
def test_a_source_is_fetched_by_what_it_is(source: str, expected: str) -> None:
    script = render(replace(PLAIN, source=source), "none")
    assert expected in script
    assert "no-check-certificate" not in script
    assert "insecure" not in script
    assert ("tar -C" in script) == (".tgz" in source)


def test_libraries_for_an_image_stay_inside() -> None:
    script = render(GPU, "slurm")
    assert "export OMP_NUM_THREADS=4\n" in script
    assert "export LD_PRELOAD" not in script
    assert (
        "exec apptainer exec --nv --bind /shared/jobs/lenet --bind /archive "
        '--pwd "$PWD" /images/lenet.sif env LD_PRELOAD=/usr/lib/libtcmalloc.so OMP_NUM_THREADS=4 '
        "sh -c " in script
    )


def test_a_value_that_nobody_has_quoted_never_gets_into_a_script() -> None:
    template = _environment(False).from_string("{{ name }}")
    with pytest.raises(TypeError, match="without quotes"):
        template.render(name="x")
    assert _environment(False).from_string("{{ name | quote }}").render(name="a b") == "'a b'"
