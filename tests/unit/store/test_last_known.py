"""What is remembered of others: how old it may be, who waits, and what an outage changes."""

import asyncio
from dataclasses import dataclass, field

import pytest

from policies.reasons import Reason
from store.errors import Unavailable
from store.services.last_known import LastKnown


@dataclass
class Elsewhere:
    """The other side: counts questions, and can be slow or away."""

    values: dict[str, int] = field(default_factory=dict)
    asked: int = 0
    away: bool = False
    answers: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.answers.set()

    async def read(self, key: str) -> int | None:
        self.asked += 1
        await self.answers.wait()
        if self.away:
            raise Unavailable(Reason.STORE_UNAVAILABLE)
        return self.values.get(key)


@dataclass
class Time:
    now: float = 0.0

    def __call__(self) -> float:
        return self.now


def remembering(
    elsewhere: Elsewhere, time: Time, grace_s: float = 0.0, size: int = 10
) -> LastKnown[str, int]:
    return LastKnown(elsewhere.read, age_s=1.0, size=size, grace_s=lambda _: grace_s, clock=time)


async def test_it_asks_again_only_when_the_answer_is_too_old():
    elsewhere, time = Elsewhere({"a": 1}), Time()
    known = remembering(elsewhere, time)

    assert [await known.get("a") for _ in range(3)] == [1, 1, 1]
    assert elsewhere.asked == 1
    elsewhere.values["a"] = 2
    time.now = 0.99
    assert await known.get("a") == 1
    time.now = 1.0
    assert await known.get("a") == 2
    assert elsewhere.asked == 2


async def test_all_who_ask_at_once_share_one_question_and_one_giving_up_ends_it_for_nobody():
    elsewhere, time = Elsewhere({"a": 1}), Time()
    known = remembering(elsewhere, time)
    elsewhere.answers.clear()

    askers = [asyncio.create_task(known.get("a")) for _ in range(5)]
    await asyncio.sleep(0)
    askers[0].cancel()
    await asyncio.sleep(0)
    elsewhere.answers.set()

    assert await asyncio.gather(*askers[1:]) == [1, 1, 1, 1]
    assert elsewhere.asked == 1


async def test_what_is_not_there_is_asked_about_each_time():
    elsewhere, time = Elsewhere(), Time()
    known = remembering(elsewhere, time)

    assert await known.get("a") is None
    elsewhere.values["a"] = 1

    assert await known.get("a") == 1


async def test_without_grace_an_outage_is_an_outage():
    elsewhere, time = Elsewhere({"a": 1}), Time()
    known = remembering(elsewhere, time)
    await known.get("a")

    elsewhere.away, time.now = True, 1.0

    with pytest.raises(Unavailable):
        await known.get("a")


async def test_the_last_good_answer_serves_for_its_grace_and_no_longer():
    elsewhere, time = Elsewhere({"a": 1}), Time()
    known = remembering(elsewhere, time, grace_s=10.0)
    await known.get("a")
    elsewhere.away = True

    time.now = 10.9
    assert await known.get("a") == 1
    time.now = 11.0
    with pytest.raises(Unavailable):
        await known.get("a")


async def test_while_the_other_side_is_known_to_be_away_nobody_waits_and_it_is_asked_now_and_then():
    elsewhere, time = Elsewhere({"a": 1}), Time()
    known = remembering(elsewhere, time, grace_s=100.0)
    await known.get("a")
    elsewhere.away, time.now = True, 2.0
    assert await known.get("a") == 1
    asked = elsewhere.asked

    elsewhere.answers.clear()
    assert [await known.get("a") for _ in range(3)] == [1, 1, 1]
    assert elsewhere.asked == asked
    time.now = 3.5
    assert await known.get("a") == 1
    await asyncio.sleep(0)
    assert elsewhere.asked == asked + 1
    elsewhere.away = False
    elsewhere.values["a"] = 2
    elsewhere.answers.set()
    await asyncio.sleep(0.01)
    assert await known.get("a") == 2


async def test_what_is_dropped_while_it_is_read_is_not_remembered():
    elsewhere, time = Elsewhere({"a": 1}), Time()
    known = remembering(elsewhere, time)
    elsewhere.answers.clear()
    asker = asyncio.create_task(known.get("a"))
    await asyncio.sleep(0)

    known.drop("a")
    elsewhere.answers.set()
    await asker
    elsewhere.values["a"] = 2

    assert await known.get("a") == 2


async def test_it_is_bounded_and_keeps_what_is_used():
    elsewhere, time = Elsewhere(dict.fromkeys("abc", 1)), Time()
    known = remembering(elsewhere, time, size=2)

    for name in ("a", "b", "a", "c"):
        await known.get(name)

    assert (known.last("a"), known.last("b"), known.last("c")) == (1, None, 1)


async def test_what_was_made_of_a_value_stands_only_as_long_as_nobody_need_ask_again():
    elsewhere, time = Elsewhere({"a": 1}), Time()
    known = remembering(elsewhere, time, grace_s=60.0)

    assert known.settled("a") is None
    await known.get("a")
    time.now = 0.79
    assert known.settled("a") == 1
    time.now = 0.81
    assert known.settled("a") is None
    known.drop("a")
    assert known.settled("a") is None
