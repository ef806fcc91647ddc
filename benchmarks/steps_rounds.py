"""Training steps of several variants by turns in one process: a slow minute harms all alike.

Each line that is printed is a JSON object: the first call of a variant, in which it compiles, and
then rounds of steps, the variants in random order in each. Round 0 warms up: TensorFlow's third
call takes up to three times as long as the next. This module knows no framework.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import time
from collections.abc import Callable, Mapping

Step = Callable[[], object]  # one training step, over when it returns

BLOCK = 0.3  # seconds of steps that are timed together, at least
MOST = 11  # rounds, the first of which warms up
ENOUGH = {12.0: 6, 50.0: 4}  # rounds, once they have taken so many seconds


def asked() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--network", required=True)
    parser.add_argument("--threads", type=int, default=1)
    return parser.parse_args()


def by_turns(makers: Mapping[str, Callable[[], Step]]) -> None:
    """Make each variant's step, and time them by turns."""
    steps, counts = {}, {}
    for name, make in makers.items():
        began = time.perf_counter()
        step = make()
        step()
        first = time.perf_counter() - began
        step()
        _, taken = timed(step, 1)
        counts[name] = max(1, round(BLOCK / taken))
        steps[name] = step
        tell(variant=name, kind="first", seconds=first)
    began = time.perf_counter()
    for number in range(MOST):
        taken = time.perf_counter() - began
        if any(taken > seconds and number >= rounds for seconds, rounds in ENOUGH.items()):
            break
        for name in random.sample(list(steps), len(steps)):
            busy, taken = timed(steps[name], counts[name])
            tell(variant=name, kind="round", round=number, seconds=taken, processors=busy)


def timed(step: Step, count: int) -> tuple[float, float]:
    """Processors that this process kept busy, and seconds a step."""
    began, before = time.perf_counter(), os.times()
    for _ in range(count):
        step()
    taken, after = time.perf_counter() - began, os.times()
    busy = after.user + after.system - before.user - before.system
    return busy / taken, taken / count


def tell(**facts: object) -> None:
    print(json.dumps(facts), flush=True)
