"""MODAK's language: its fields in our words, and what is no request."""

import json
from pathlib import Path
from typing import Any

import pytest

from forerun.errors import InputError
from forerun.planning.modak import read_modak
from forerun.planning.request import Request

OPTIONS = {
    "job_name": "train",
    "account": "group",
    "qos": "normal",
    "queue": "standard",
    "partition": "mc",
    "wall_time_limit": "12:30:05 ",
    "node_count": 2,
    "request_gpus": 4,
    "core_count": 40,
    "process_count_per_node": 4,
    "core_count_per_process": 10,
    "memory_limit": "64 GB",
    "minimum_memory_per_processor": "10 MB",
    "standard_output_file": "train.out",
    "standard_error_file": "train.err",
    "combine_stdout_stderr": False,
    "request_event_notification": "ae",
    "email_address": "user@example.org",
    "copy_environment": True,
    "copy_environment_variable": "HOME, LANG",
    "request_specific_nodes": "n1,n2",
    "job_array": "1-4",
    "architecture_constraint": "avx512",
    "job_dependency": "123",
    "defer_job": "2026-01-01T10:00",
    "node_exclusive": True,
}
JOB: dict[str, Any] = {
    "job_options": OPTIONS,
    "target": {"name": "daint", "job_scheduler_type": "torque"},
    "application": {
        "app_tag": "train",
        "app_type": "python",
        "executable": "python3 train.py",
        "arguments": "--data ${DATA_ROOT}/train 'two words' \\\n--plain $HOME `id`",
        "container_runtime": "",
        "threads": 2,
        "minimal_efficiency": 0.7,
        "storage_class_pref": "default-ssd",
        "build": {
            "src": "https://example.org/a.tar.gz",
            "build_command": "make -j {{BUILD_PARALLELISM}}",
            "build_parallelism": 8,
        },
        "pre-execution": "module load gcc",
        "post-execution": "rm -r scratch",
    },
    "optimisation": {
        "enable_opt_build": True,
        "enable_autotuning": True,
        "app_type": "ai_training",
        "opt_build": {"cpu_type": "amd", "acc_type": "none"},
        "app_type-ai_training": {
            "config": {"ai_framework": "tensorflow"},
            "data": {"location": "/some/data"},
            "ai_framework-tensorflow": {"version": "2.1", "xla": True},
        },
    },
}


def read(tmp_path: Path, document: object) -> Request:
    file = tmp_path / "request.json"
    file.write_text(document if isinstance(document, str) else json.dumps(document))
    return read_modak(file)


def changed(path: str, value: object) -> dict[str, Any]:
    """A request with one value in place of another."""
    document: dict[str, Any] = json.loads(json.dumps({"job": JOB}))
    *tables, name = path.split(".")
    table = document
    for part in tables:
        table = table[part]
    table[name] = value
    return document


def test_every_option_has_its_place(tmp_path: Path) -> None:
    found = read(tmp_path, {"job": JOB})
    job = found.job
    assert (job.name, job.account, job.qos, job.queue) == ("train", "group", "normal", "standard")
    assert job.walltime == 12 * 3600 + 30 * 60 + 5
    assert (job.nodes, job.accelerators, job.cores, job.processes) == (2, 4, 40, 4)
    assert (job.cores_per_process, job.threads, job.ranks) == (10, 2, None)
    assert (job.memory, job.memory_per_core) == (64e9, 10e6)
    assert (job.output, job.errors) == ("train.out", "train.err")
    assert (job.mail_to, job.mail_on) == ("user@example.org", ("fail", "end"))
    assert (job.environment, job.variables) == (True, ("HOME", "LANG"))
    assert (job.hosts, job.features, job.exclusive) == (("n1", "n2"), ("mc", "avx512"), True)
    assert (job.array, job.after, job.begin) == ("1-4", "123", "2026-01-01T10:00")
    assert (job.prologue, job.epilogue) == ("module load gcc", "rm -r scratch")
    assert found.target.scheduler == "pbs"
    assert found.target.nodes == 2
    assert "target.name is kept as a note: daint" in found.notes  # --on says where
    assert found.constraints.efficiency == 0.7
    assert (found.application.framework, found.application.version) == ("tensorflow", "2.1")
    assert found.application.build == "make -j 8"
    wishes = found.wishes
    assert (wishes.compiler, wishes.processor, wishes.accelerator) == ("xla", "x86", None)


def test_the_command_expands_named_variables_and_nothing_else(tmp_path: Path) -> None:
    command = read(tmp_path, {"job": JOB}).application.command
    assert command == (
        "python3 train.py --data \"${{DATA_ROOT}}/train\" 'two words' --plain '$HOME' '`id`'"
    )


@pytest.mark.parametrize(
    ("word", "quoted"),
    [
        ("${A}$(id)`id`\"'", '"${{A}}\\$(id)\\`id\\`\\"\'"'),
        ("a;b", "'a;b'"),
        ("${A-x}", "'${{A-x}}'"),
        ("{batch}", "'{{batch}}'"),
    ],
)
def test_no_other_word_reaches_a_shell_unquoted(tmp_path: Path, word: str, quoted: str) -> None:
    text = word.replace("\\", "\\\\").replace('"', '\\"').replace("'", "\\'")
    text = text.replace("`", "\\`").replace(";", "\\;").replace("(", "\\(").replace(")", "\\)")
    found = read(tmp_path, changed("job.application.arguments", text))
    assert found.application.command == f"python3 train.py {quoted}"


def test_what_cannot_be_honoured_is_noted(tmp_path: Path) -> None:
    document = changed("job.optimisation.app_name", "openmpi")
    document["job"]["job_options"]["combine_stdout_stderr"] = True
    document["job"]["job_options"]["colour"] = "blue"
    document["job"]["optimisation"]["app_type-ai_training"]["data"]["size"] = 67
    notes = read(tmp_path, document).notes
    assert "unknown field: job.job_options.colour" in notes
    assert "app_name is kept as a note: openmpi" in notes
    assert any(note.startswith("standard_error_file is not used") for note in notes)
    assert "data.location is kept as a note: /some/data" in notes
    assert "data.size is kept as a note: 67" in notes
    assert any("--trial" in note for note in notes)
    assert any("storage_class_pref is kept as a note: default-ssd" in note for note in notes)


def test_what_a_network_is_and_how_it_was_tuned_are_noted(tmp_path: Path) -> None:
    document = changed("job.optimisation.autotuning", {"tuner": "cresta", "input": "tune.dsl"})
    document["job"]["application"]["container_runtime"] = "docker://example/image"
    training = document["job"]["optimisation"]["app_type-ai_training"]
    training["config"] = {
        "ai_framework": "pytorch",
        "distributed_training": True,
        "layers": 6,
        "parameters": 1000,
    }
    training["ai_framework-pytorch"] = {"version": "1.4", "glow": True}
    found = read(tmp_path, document)
    assert found.wishes.compiler is None
    assert {
        "config.distributed_training is kept as a note: True",
        "config.layers is kept as a note: 6",
        "config.parameters is kept as a note: 1000",
        "autotuning.tuner is kept as a note: cresta",
        "autotuning.input is kept as a note: tune.dsl",
        "container_runtime is kept as a note: docker://example/image",
        "glow is no longer made: inductor is what PyTorch compiles with",
    } <= set(found.notes)


def test_inference_is_a_task_of_its_own(tmp_path: Path) -> None:
    assert read(tmp_path, {"job": JOB}).task == "training"
    assert read(tmp_path, changed("job.optimisation.app_type", "ai_inference")).task == "inference"


def test_an_efficiency_of_all_is_one_that_can_be_had(tmp_path: Path) -> None:
    found = read(tmp_path, changed("job.application.minimal_efficiency", 1.0))
    assert found.constraints.efficiency == 0.999
    assert any(note.startswith("minimal_efficiency 1 ") for note in found.notes)


def test_an_mpi_program(tmp_path: Path) -> None:
    document = changed("job.application.mpi_ranks", 80)
    del document["job"]["optimisation"]
    found = read(tmp_path, document)
    assert (found.application.framework, found.job.ranks) == ("mpi", 80)


@pytest.mark.parametrize(
    ("document", "told"),
    [
        (changed("job.optimisation.opt_build.cpu_type", "x86/arm"), "cpu_type: found x86/arm"),
        ({"optimisation": {"app_type": "hpc"}}, "application: found none, expected a table"),
        (
            {"optimisation": {"app_type": "hpc/ai_training"}},
            "found no application to run, expected job.application; and optimisation.app_type is "
            "a template's: hpc/ai_training",
        ),
        ({"container_file": "x", "name": "y"}, "found a container mapping, expected a request"),
        (changed("job.application.executable", " "), "found no application, expected job"),
        (changed("job.application.executable", "a 'b"), "executable: found No closing quotation"),
        (changed("job.application.executable", 7), "executable: found 7, expected a text"),
        (changed("job.job_options.wall_time_limit", "soon"), "wall_time_limit: found soon"),
        (changed("job.job_options.wall_time_limit", "²:00"), "wall_time_limit: found ²:00"),
        (changed("job.job_options.wall_time_limit", "9" * 5000), "wall_time_limit: found 999"),
        (changed("job.job_options.wall_time_limit", int("9" * 400)), "walltime: found inf"),
        (changed("job.job_options.node_count", 0), "found 0, expected at least 1"),
        (changed("job.job_options.node_count", -1), "found -1, expected at least 1"),
        (changed("job.job_options.request_event_notification", "xyz"), "letters of abe"),
        (changed("job.job_options.memory_limit", "much"), "memory_limit: found much"),
        (changed("job.job_options.queue", "a\n#SBATCH -A b"), "job.queue: found a\\n#SBATCH"),
        (changed("job.application.minimal_efficiency", 7), "efficiency: found 7"),
        (changed("job.optimisation.opt_build.acc_type", "abacus"), "accelerator: found abacus"),
        ({"job": []}, "job: found list, expected a table"),
        ([], "found list, expected a JSON object"),
        ('\t"optimization": {}', "line 1, column 16: found Extra data, expected JSON"),
        ('{"job": 1, "job": 2}', "found job twice, expected JSON"),
        ("[" * 100_000, "expected JSON"),
        ("{}", "job: found none, expected a table"),
    ],
)
def test_what_is_no_request_is_told_in_one_line(
    tmp_path: Path, document: object, told: str
) -> None:
    with pytest.raises(InputError) as refused:
        read(tmp_path, document)
    assert told in str(refused.value)
    assert "request.json" in str(refused.value)
    assert "\n" not in str(refused.value)
