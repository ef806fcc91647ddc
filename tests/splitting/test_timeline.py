"""Schedules whose course can be told by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forerun.splitting.timeline import End, Message, Schedule, Task, play

FAST = End(rate=1e12)


def test_tasks_of_one_device_follow_each_other() -> None:
    found = play(Schedule((Task(0, 1.0), Task(0, 2.0, (0,))), (), (FAST,)))
    assert found.latency == found.period == pytest.approx(3.0)
    assert found.busy == (3.0,)


def test_a_message_takes_its_bytes_over_the_rate_and_its_latency() -> None:
    tasks = (Task(0, 1.0), Task(1, 1.0, messages=(0,)))
    slow = End(rate=100.0, latency=0.25)
    message = Message(0, 1, 200.0, (0,), send=0.1, receive=0.2)
    found = play(Schedule(tasks, (message,), (slow, slow)))
    assert found.latency == pytest.approx(1 + 0.1 + 2 + 0.25 + 0.2 + 1)
    assert list(found.busy) == pytest.approx([1.1, 1.2])


def test_three_that_send_to_one_share_its_end() -> None:
    tasks = tuple(Task(device, 1.0) for device in range(3))
    messages = tuple(Message(device, 3, 100.0, (device,)) for device in range(3))
    last = Task(3, 0.0, messages=(0, 1, 2))
    ends = (End(100.0),) * 4
    assert play(Schedule((*tasks, last), messages, ends)).latency == pytest.approx(1 + 3)


def test_one_that_sends_to_three_shares_its_own_end() -> None:
    messages = tuple(Message(0, device, 100.0, (0,)) for device in (1, 2, 3))
    after = tuple(Task(device, 0.0, messages=(device - 1,)) for device in (1, 2, 3))
    found = play(Schedule((Task(0, 1.0), *after), messages, (End(100.0),) * 4))
    assert found.latency == pytest.approx(1 + 3)


def test_exchanges_both_ways_go_at_once() -> None:
    tasks = (Task(0, 1.0), Task(1, 1.0), Task(0, 1.0, (0,), (1,)), Task(1, 1.0, (1,), (0,)))
    messages = (Message(0, 1, 100.0, (0,)), Message(1, 0, 100.0, (1,)))
    found = play(Schedule(tasks, messages, (End(100.0),) * 2))
    assert found.latency == pytest.approx(1 + 1 + 1)


def test_what_needs_no_message_is_computed_while_it_is_on_its_way() -> None:
    tasks = (
        Task(0, 1.0),
        Task(0, 0.7, (0,)),
        Task(1, 0.0, messages=(0,)),
        Task(0, 1.0, (1,), (1,)),
    )
    messages = (Message(0, 1, 50.0, (0,)), Message(1, 0, 50.0, (2,)))
    found = play(Schedule(tasks, messages, (End(100.0),) * 2))
    assert found.latency == pytest.approx(1 + 0.5 + 0.5 + 1)  # 0.7 s of it were free


def test_a_pipeline_takes_as_long_a_sample_as_its_longest_part() -> None:
    tasks = (Task(0, 1.0), Task(1, 2.0, messages=(0,)))
    schedule = Schedule(tasks, (Message(0, 1, 0.0, (0,)),), (FAST, FAST))
    assert play(schedule).period == pytest.approx(3.0)
    assert play(schedule, in_flight=2).period == pytest.approx(2.0)


def test_samples_in_flight_hide_exchanges() -> None:
    """Scheme 3: where computing and exchanging take as long, twice as many samples a second."""
    tasks = (Task(0, 1.0), Task(1, 1.0), Task(0, 1.0, (0,), (1,)), Task(1, 1.0, (1,), (0,)))
    messages = (Message(0, 1, 200.0, (0,)), Message(1, 0, 200.0, (1,)))
    schedule = Schedule(tasks, messages, (End(100.0),) * 2)
    assert play(schedule).period == pytest.approx(4.0)
    assert play(schedule, in_flight=4).period == pytest.approx(2.0, rel=0.05)


def test_tasks_that_wait_for_each_other_are_an_error() -> None:
    with pytest.raises(ValueError, match="wait for each other"):
        play(Schedule((Task(0, 1.0, (1,)), Task(0, 1.0, (0,))), (), (FAST,)))


@given(
    st.lists(st.tuples(st.integers(0, 2), st.floats(0, 2)), min_size=1, max_size=12),
    st.integers(1, 4),
)
def test_no_schedule_beats_its_busiest_device_nor_its_longest_way(
    given_tasks: list[tuple[int, float]], in_flight: int
) -> None:
    """Whatever waits for what: bounds from below, and one after the other from above."""
    tasks: list[Task] = []
    messages: list[Message] = []
    longest: list[float] = []
    for place, (device, seconds) in enumerate(given_tasks):
        before = place // 2
        own: tuple[int, ...] = ()
        come: tuple[int, ...] = ()
        way = 0.0
        if place:
            way = longest[before]
            if tasks[before].device == device:
                own = (before,)
            else:
                come = (len(messages),)
                messages.append(Message(tasks[before].device, device, 10.0, (before,)))
                way += 0.1
        tasks.append(Task(device, seconds, own, come))
        longest.append(way + seconds)
    found = play(Schedule(tuple(tasks), tuple(messages), (End(100.0),) * 3), in_flight)
    every = sum(task.seconds for task in tasks) + 0.1 * len(messages)
    assert found.latency >= max(longest) - 1e-9
    assert found.period >= max(found.busy) - 1e-9
    if in_flight == 1:
        assert found.latency <= every + 1e-9
