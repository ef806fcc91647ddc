"""What comes back: the run that a job was, as the study keeps it, and how far it is a surprise.

A job's time is one of the study's only where it is the time of the same thing: of a job that
started once and ended well, that read its data from where the study's runs did, on the machine that
it was planned for. Anything else is kept beside, as `elapsed_seconds`, and no model learns from it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from forerun import __version__, quantities
from forerun.deploying.record import Record, Result, Stored
from forerun.deploying.timing import STATUS, marked, peak_bytes, starts_of
from forerun.errors import InputError
from forerun.factors import Point
from forerun.jobs.attempts import Attempt, run_seconds
from forerun.jobs.backend import State
from forerun.measuring.program import programs_in
from forerun.study import Run, Status, Study

SOURCE = "deployment"  # how the source of such a run begins
ELAPSED = "elapsed_seconds"  # what a time is called that is not one of the study's
FULL = 0.9  # of a node's memory, from which on its lack is worth a word
APART = 1.25  # ratio from which on staging took another time than planned


@dataclass(frozen=True, slots=True)
class _Time:
    """What a job took: as the study counts it, and by the clock."""

    seconds: float | None = None
    elapsed: float | None = None
    why_not: str = ""  # why it is none of the study's times

    def compared(self, record: Record) -> float | None:
        """What stands beside the prediction: a marker may time less than all of the program."""
        if self.seconds is None:
            return self.elapsed
        return record.startup + record.repeats * self.seconds


def settled(record: Record, state: State, attempts: Sequence[Attempt]) -> Result:
    """How a job ended; its run is put into the study, once, however often this is called."""
    status = STATUS[state.phase]
    study = _study(record)
    hosts = {run.host for run in study.runs("ok")} - {""} if study is not None else set()
    time = _time(record, state, attempts, study, hosts)
    memory = peak_bytes(state, attempts)
    stored: Stored = "" if study is None else _store(record, study, status, time, attempts, memory)
    starts = starts_of(state, attempts)
    staged = next((one.staged for one in reversed(attempts) if one.staged is not None), None)
    inside = None
    took = time.compared(record)
    clean = status == "ok" and starts < 2 and not state.suspended
    if record.predicted is not None and took is not None and clean:
        inside = record.predicted.run_low <= took <= record.predicted.run_high
    result = Result(
        status=status,
        run_seconds=took,
        waited_seconds=state.waited,
        staged_seconds=staged,
        memory_bytes=memory or None,
        starts=starts,
        nodes=_nodes(state, attempts),
        inside=inside,
        stored=stored,
    )
    told = (*_surprise(record, result), *_reasons(record, result, hosts))
    return result.model_copy(update={"told": (*told, _kept(record, result, time))})


def _study(record: Record) -> Study | None:
    if record.study is None or not Path(record.study).exists():
        return None
    return Study.open(record.study)


def _time(
    record: Record,
    state: State,
    attempts: Sequence[Attempt],
    study: Study | None,
    hosts: set[str],
) -> _Time:
    """What it took, and whether that can stand beside the runs of the study."""
    elapsed = next((one.seconds for one in reversed(attempts) if one.seconds is not None), None)
    clean = run_seconds(attempts)
    if state.phase != "done" or elapsed is None:
        return _Time(elapsed=elapsed, why_not="it did not end well")
    if record.apart:
        return _Time(elapsed=elapsed, why_not=record.apart)
    if state.starts > 1 or len(attempts) > 1:
        return _Time(elapsed=elapsed, why_not="it was started more than once")
    if state.suspended:
        return _Time(elapsed=elapsed, why_not="it was suspended for a while")
    if not attempts[-1].steady:
        return _Time(elapsed=elapsed, why_not="the clock of its node was set meanwhile")
    if clean is None:
        return _Time(elapsed=elapsed, why_not="it was asked to save before its end")
    if study is None:
        return _Time(elapsed=elapsed)
    if record.elsewhere and attempts[-1].host not in hosts:
        return _Time(elapsed=elapsed, why_not="no run of the study was made on this machine")
    try:
        seconds = _as_measured(record, study, clean)
    except InputError as error:
        return _Time(elapsed=elapsed, why_not=str(error))
    return _Time(seconds, elapsed)


def _as_measured(record: Record, study: Study, elapsed: float) -> float:
    """The time as the study's runs have theirs: of one repeat, or what the output says."""
    program = programs_in(study).get(record.variant)
    if program is not None and program.marker is not None:
        return marked(Path(record.folder, record.output), program.marker)
    seconds = (elapsed - record.startup) / record.repeats
    if seconds <= 0:
        found = f"a run of {quantities.seconds(elapsed)}"
        raise InputError("the job", found, "more than its start-up alone")
    return seconds


def _store(
    record: Record,
    study: Study,
    status: Status,
    time: _Time,
    attempts: Sequence[Attempt],
    memory: int,
) -> Stored:
    """Put the run into the study; as what it is there."""
    begun = next((one.begun for one in attempts if one.begun is not None), None)
    if begun is None:
        return ""  # nothing was run
    measures = {"memory_bytes": float(memory)} if memory else {}
    if time.seconds is not None:
        measures["seconds"] = time.seconds
        if time.elapsed is not None and time.elapsed != time.seconds:
            measures["wall_seconds"] = time.elapsed
    elif time.elapsed and status == "ok":
        measures[ELAPSED] = time.elapsed
    if status == "ok" and not measures:
        return ""
    study.add(
        Run(
            Point(record.point),
            measures,
            status,
            variant=record.variant,
            host=attempts[-1].host,
            versions={"forerun": __version__},
            started=datetime.fromtimestamp(begun, UTC).isoformat(timespec="milliseconds"),
            source=f"{SOURCE} {record.uid}",
            uid=record.uid,
        )
    )
    if status != "ok":
        return "status"
    return "apart" if time.seconds is None else "time"


def _nodes(state: State, attempts: Sequence[Attempt]) -> tuple[str, ...]:
    if attempts and attempts[-1].nodes:
        return attempts[-1].nodes
    return tuple(name for name in state.nodes if name)


def _surprise(record: Record, result: Result) -> list[str]:
    """The measured time against the predicted one."""
    if result.run_seconds is None or result.status != "ok":
        return []
    took = f"the run took {quantities.seconds(result.run_seconds)}"
    predicted = record.predicted
    if predicted is None:
        return [f"{took}; nothing was predicted"]
    said = quantities.seconds(predicted.run)
    between = quantities.between(predicted.run_low, predicted.run_high)
    told = f"{took}; predicted were {said}, {between}"
    if result.inside is None:
        return [told]
    if result.inside:
        return [f"{told}: inside the 90 % interval"]
    off = result.run_seconds / predicted.run - 1 if predicted.run else 0.0
    how = "longer" if off > 0 else "shorter"
    return [f"{told}: {quantities.percent(abs(off))} {how}, outside the 90 % interval"]


def _reasons(record: Record, result: Result, hosts: set[str]) -> list[str]:
    """What is known that explains a surprise; of waiting and staging, whenever they were other."""
    found, predicted = [], record.predicted
    if predicted is not None and result.waited_seconds is not None:
        more = result.waited_seconds - predicted.wait
        if more > max(60.0, 0.25 * predicted.seconds):
            planned = quantities.seconds(predicted.wait) if predicted.wait else "none"
            waited = quantities.seconds(result.waited_seconds)
            found.append(f"it waited {waited} in the queue, where the plan had {planned}")
    if predicted is not None and predicted.staging and result.staged_seconds:
        ratio = result.staged_seconds / predicted.staging
        if not 1 / APART < ratio < APART:
            took, planned = map(quantities.seconds, (result.staged_seconds, predicted.staging))
            found.append(f"bringing the data there took {took}, planned were {planned}")
    if result.starts > 1:
        found.append(f"it was started {result.starts} times: what it did before is lost or saved")
    if result.inside is not False:
        return found
    return found + (_causes(record, result, hosts) or [_UNKNOWN])


_UNKNOWN = "nothing that is known explains it: measure this configuration once more"


def _causes(record: Record, result: Result, hosts: set[str]) -> list[str]:
    """What may have made the run itself take another time than was predicted."""
    found = []
    new = [node for node in result.nodes if hosts and node not in hosts]
    if new:
        found.append(f"node: the study has no run from {', '.join(new)}")
    if not record.alone:
        hint = "" if record.backend == "local" else "; job.exclusive keeps others away"
        found.append(f"other load: what else ran there meanwhile is not known{hint}")
    memory, predicted = result.memory_bytes, record.predicted
    said = predicted.memory_bytes if predicted is not None else None
    if memory and said and memory > said:
        need, most = (quantities.amount(one, "bytes") for one in (memory, said))
        found.append(f"memory: a process needed {need}, more than the {most} that was predicted")
    if memory and record.node_memory and memory > FULL * record.node_memory:
        found.append("memory: a process needed nearly all of its node's")
    found += [f"the plan had warned: {line}" for line in record.cautions]
    return found


def _kept(record: Record, result: Result, time: _Time) -> str:
    """Where the run is now."""
    if record.study is None:
        return "the request has no study: nothing was stored"
    if not result.stored:
        missing = not Path(record.study).exists()
        return f"{record.study}: {'no such file' if missing else 'nothing was run'}: nothing stored"
    if result.stored == "time":
        return f"{record.study}: the run is stored; the next fit uses it"
    if result.stored == "apart":
        return f"{record.study}: the run is stored, its time apart ({ELAPSED}): {time.why_not}"
    return f"{record.study}: stored as {result.status.replace('_', ' ')}"
