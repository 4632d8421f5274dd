"""One core is driven to its end by either driver, whatever comes out of the functions that it asks for."""

import asyncio
from contextlib import suppress

import pytest

from custody_toolchain.driving import GivenUp, MustBeAwaited, adrive, ask, drive


def core(log, function):
    """Ask once, and tidy up by asking again."""
    try:
        return (yield from ask(function))
    except Exception as error:  # noqa: BLE001 - written down
        log.append(error)
        return "failed"
    finally:
        yield from ask(lambda: log.append("tidied"), to_the_end=True)


def raising(error):
    def function():
        raise error

    return function


async def later():
    await asyncio.sleep(0)
    return "later"


def test_both_drivers_give_what_the_core_gives():
    assert drive(core([], lambda: 7)) == asyncio.run(adrive(core([], lambda: 7))) == 7
    assert asyncio.run(adrive(core([], later))) == "later"


@pytest.mark.parametrize("error", [ValueError(), StopIteration(), GeneratorExit()], ids=repr)
def test_what_a_function_raises_comes_back_into_the_core(error):
    log: list[object] = []
    assert drive(core(log, raising(error))) == "failed"
    assert log[-1] == "tidied"
    assert isinstance(log[0], Exception)


@pytest.mark.parametrize(
    ("run", "error"),
    [
        (drive, KeyboardInterrupt()),
        (drive, asyncio.CancelledError()),
        (lambda steps: asyncio.run(adrive(steps)), KeyboardInterrupt()),
    ],
)
def test_an_interrupt_goes_on_after_the_core_has_tidied_up(run, error):
    log: list[object] = []
    with pytest.raises(type(error)):
        run(core(log, raising(error)))
    assert log == ["tidied"]


async def waits_for_what_others_cancelled():
    other = asyncio.create_task(asyncio.sleep(60))
    other.cancel()
    await other


@pytest.mark.parametrize("to_the_end", [True, False])
@pytest.mark.parametrize(
    "function",
    [waits_for_what_others_cancelled, raising(asyncio.CancelledError())],
    ids=["awaited", "raised"],
)
async def test_a_cancellation_of_something_else_is_a_failure_like_any_other(function, to_the_end):
    def steps():
        try:
            yield from ask(function, to_the_end=to_the_end)
        except Exception as error:  # noqa: BLE001 - looked at below
            return error

    error = await adrive(steps())
    assert isinstance(error, GivenUp)
    assert isinstance(error.__cause__, asyncio.CancelledError)


@pytest.mark.parametrize("before", [True, False], ids=["first", "after another's"])
async def test_a_cancellation_of_the_task_itself_is_none_of_something_else(before):
    log: list[object] = []

    def cancels_its_task():
        # As Ctrl-C does while a function that is not awaited is at work.
        task = asyncio.current_task()
        assert task is not None
        task.cancel()

    def steps():
        if not before:
            log.append((yield from core(log, waits_for_what_others_cancelled)))
            log.clear()
        yield from ask(cancels_its_task)
        yield from core(log, later)

    with pytest.raises(asyncio.CancelledError):
        await asyncio.create_task(adrive(steps()))
    assert log == ["tidied"]


async def test_a_task_that_was_cancelled_before_is_still_told_of_a_second_cancellation():
    began: list[object] = []

    def steps():
        with suppress(asyncio.CancelledError):
            yield from ask(asyncio.Event().wait)
        began.append("again")
        with suppress(GivenUp):
            yield from ask(waits_for_what_others_cancelled)
        yield from ask(asyncio.Event().wait)

    task = asyncio.create_task(adrive(steps()))
    for _ in range(2):
        for _ in range(9):
            await asyncio.sleep(0)
        task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert began == ["again"]


def test_what_must_be_awaited_is_refused_and_never_begun():
    log: list[object] = []
    assert drive(core(log, later)) == "failed"
    assert isinstance(log[0], MustBeAwaited)


def test_a_limit_of_time_ends_what_is_awaited():
    def waiting():
        try:
            yield from ask(asyncio.Event().wait, timeout_s=0.01)
        except TimeoutError:
            return "over"

    assert asyncio.run(adrive(waiting())) == "over"


def test_a_cancellation_waits_for_what_goes_to_its_end():
    async def main():
        begun, go_on, log = asyncio.Event(), asyncio.Event(), []

        async def slow():
            begun.set()
            await go_on.wait()
            log.append("done")

        def steps():
            yield from ask(slow, to_the_end=True)
            return "result"

        task = asyncio.create_task(adrive(steps()))
        await begun.wait()
        for _ in range(3):
            task.cancel()
            await asyncio.sleep(0)
        assert not task.done()
        go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        return log

    assert asyncio.run(main()) == ["done"]


def test_an_interrupt_in_what_goes_to_its_end_lets_the_core_await_while_it_tidies_up():
    log = []

    async def interrupted():
        await asyncio.sleep(0)
        log.append("asked")
        raise KeyboardInterrupt

    def steps():
        try:
            yield from ask(interrupted, to_the_end=True)
        finally:
            log.append((yield from ask(later, to_the_end=True)))

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(adrive(steps()))
    assert log == ["asked", "later"]


async def cancelled_at(steps, begun, go_on):
    """Cancel a drive while its core waits for what goes to its end, and let that go on."""
    task = asyncio.create_task(adrive(steps))
    await begun.wait()
    task.cancel()
    await asyncio.sleep(0)
    go_on.set()
    with pytest.raises(asyncio.CancelledError) as raised:
        await task
    return raised.value


async def test_a_cancellation_that_waited_comes_instead_of_the_next_call_that_may_be_broken_off():
    begun, go_on, log = asyncio.Event(), asyncio.Event(), []

    async def slow():
        begun.set()
        await go_on.wait()

    def steps():
        yield from ask(slow, to_the_end=True)
        yield from ask(lambda: log.append("to the end"), to_the_end=True)
        try:
            yield from ask(lambda: log.append("called"))
        except asyncio.CancelledError:
            yield from ask(lambda: log.append("tidied"))

    await cancelled_at(steps(), begun, go_on)
    assert log == ["to the end", "tidied"]


async def test_what_a_core_raises_hides_no_cancellation():
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def slow():
        begun.set()
        await go_on.wait()

    def steps():
        yield from ask(slow, to_the_end=True)
        raise ValueError("the core's own")

    raised = await cancelled_at(steps(), begun, go_on)
    assert isinstance(raised.__cause__, ValueError)
