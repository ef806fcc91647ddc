"""Candidates: what each needs, and why some cannot be had."""

from typing import Any

import pandas as pd
import pytest

from forerun.errors import InputError
from forerun.factors import Factor, Space
from forerun.infrastructure import Infrastructure
from forerun.planning.candidates import Candidate, candidates
from forerun.planning.planner import unmeasured
from forerun.planning.request import Request

NODE: dict[str, Any] = {
    "nodes": 4,
    "processors": {"count": 2, "microarchitecture": "zen3", "cores": 4, "threads": 8},
    "memory": "16 GiB",
}


def request(**changes: Any) -> Request:
    return Request.model_validate({"application": {"command": "train"}, **changes})


def found(
    *factors: str,
    partitions: dict[str, Any] | None = None,
    storage: dict[str, Any] | None = None,
    **changes: Any,
) -> list[Candidate]:
    cluster = {"name": "c", "partitions": partitions or {"cpu": NODE}, "storage": storage or {}}
    space = Space([Factor.parse(text) for text in factors])
    seen = pd.DataFrame([dict(point) for point in space.grid()])
    infrastructure = Infrastructure.model_validate(cluster)
    return candidates(request(**changes), infrastructure, space, seen)


def test_threads_are_those_that_run_at_once() -> None:
    by_threads = {one.point["threads"]: one for one in found("threads=8,16,17", "workers=1,2")}
    assert by_threads[16].nodes == 2  # two workers, one on each
    assert not by_threads[16].why_not
    assert by_threads[17].why_not == "17 threads, more than the 16 of a node of cpu"
    assert {one.nodes for one in found("threads=8", "workers=1,2")} == {1}


def test_two_factors_of_one_role() -> None:
    with pytest.raises(InputError) as refused:
        found("gpus=1,2", "processes=1,2")
    assert str(refused.value) == (
        "the role workers: found gpus and processes, expected one factor of the study"
    )


def test_a_partition_that_reaches_no_storage_is_kept_with_a_reason() -> None:
    partitions = {"far": {**NODE, "storage": []}, "near": {**NODE, "default": True}}
    made = found(
        "workers=1,2",
        partitions=partitions,
        storage={"home": {"bandwidth": "1 GB/s"}},
        data={"size": "1 GB"},
    )
    why_not = {one.partition: one.why_not for one in made}
    assert why_not == {"far": "nothing was measured on far", "near": ""}
    alone = found(
        "workers=1,2",
        partitions={"far": partitions["far"]},
        storage={"home": {"bandwidth": "1 GB/s"}},
        data={"size": "1 GB"},
    )
    assert {one.why_not for one in alone} == {"far reaches no storage that could hold the data"}


def test_too_many_are_counted_whatever_storage_the_first_partition_reaches() -> None:
    far = {**NODE, "storage": []}
    with pytest.raises(InputError, match="300000 candidates, expected at most 200000"):
        found(
            "workers=1,2",
            partitions={"far": far, "near": {**NODE, "default": True}, "other": NODE},
            storage={"home": {"bandwidth": "1 GB/s"}},
            data={"size": "1 GB"},
            free={"workers": "1..100000:1"},
        )


def test_a_variant_that_is_fixed_where_nothing_was_measured() -> None:
    commands = {"application": {"commands": {"a": "train", "b": "train --fast"}}}
    cluster = Infrastructure.model_validate({"name": "c", "partitions": {"cpu": NODE}})
    plan = unmeasured(request(**commands, fixed={"variant": "b"}), cluster)
    assert [one.candidate.point["variant"] for one in plan.considered] == ["b"]
    with pytest.raises(InputError, match="variant: found z, expected one of the commands a, b"):
        unmeasured(request(**commands, fixed={"variant": "z"}), cluster)
