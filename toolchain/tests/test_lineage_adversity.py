"""What must never make a link: reused ids, copies, changed objects, other threads, forks, and sheer size."""

import asyncio
import copy
import gc
import json
import os
import pickle
import sys
import threading
import tracemalloc
import weakref
from concurrent.futures import ThreadPoolExecutor

import msgspec
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from custody_toolchain.facts import Link
from custody_toolchain.ids import ResultRef
from custody_toolchain.lineage import Lineage, binding

RUN = "run-1"
A1 = ResultRef(RUN, "a1")


class Model(pydantic.BaseModel):
    role: str = "tool"
    content: object = None


def tool(content):
    return {"role": "tool", "tool_call_id": "c1", "content": content}


def links(lineage, *messages):
    """Submit a request, and return the links of what stands in it, in order."""
    request = lineage.prepare("x", list(messages)).submitted()
    known = [*lineage.occurrences("a1"), *lineage.unlinked()]
    return [each.link for each in sorted(known, key=lambda each: each.position) if each.request == request]


@pytest.fixture
def lineage():
    with Lineage(RUN) as made:
        yield made


@pytest.mark.parametrize("make", [lambda: {"a": 1}, lambda: [1], Model, lambda: {1, 2}])
def test_an_object_that_gets_the_id_of_a_dead_one_is_not_it(lineage, make):
    reused = 0
    for _ in range(500):
        bound = lineage.bind(make(), A1)
        at, kind = id(bound), type(bound)
        assert at in binding.records
        del bound
        assert at not in binding.records
        # The same class: the memory of the dead one is what the allocator gives first.
        follower = kind.model_construct() if kind is Model else kind()
        reused += id(follower) == at
        assert links(lineage, tool(follower)) == [Link.UNKNOWN]
    assert reused


def test_an_object_that_dies_in_a_circle_is_forgotten(lineage):
    bound = lineage.bind({"a": 1}, A1)
    bound["self"] = bound
    at = id(bound)
    del bound
    gc.collect()
    assert at not in binding.records


def test_a_bound_text_is_held_so_that_nothing_can_get_its_id(lineage):
    at = id(lineage.bind("x" * 100, A1))
    gc.collect()
    others = ["x" * 99 + chr(97 + each % 26) for each in range(10_000)]
    assert at not in {id(each) for each in others}


def test_texts_that_no_request_had_for_longest_are_let_go_first():
    lineage = Lineage(RUN, most_texts=2)
    first, second = lineage.bind("first", A1), lineage.bind("second", A1)
    lineage.prepare("x", [tool(first)])
    third = lineage.bind("third", A1)
    assert links(lineage, tool(first), tool(second), tool(third)) == [Link.BOUND, Link.UNKNOWN, Link.BOUND]


def test_texts_are_held_up_to_a_size():
    lineage = Lineage(RUN, most_text_bytes=3000)
    texts = [lineage.bind("x" * 1000, A1) for _ in range(5)]
    held = [link is Link.BOUND for link in links(lineage, *map(tool, texts))]
    assert held == [False, False, False, True, True]
    large = "x" * 5000
    assert lineage.bind(large, A1) is large
    assert lineage.unbound == 1
    assert sum(sys.getsizeof(each) for each in texts[3:]) <= 3000


@pytest.mark.parametrize("letter", ["a", "é", "漢", "🌊", "aaaaaaa🌊"])
@pytest.mark.parametrize("encoded", ["neither", "given", "bound"])
def test_texts_are_held_up_to_a_size_whoever_encodes_them(letter, encoded):
    """CPython keeps the UTF-8 of a text that an encoder was given, as a part of the text."""
    lineage, texts = Lineage(RUN, most_text_bytes=64_000), []
    for number in range(1000):
        text = letter * 100 + str(number)
        if encoded == "given":
            msgspec.json.encode(text)
        texts.append(lineage.bind(text, A1))
        if encoded == "bound":
            msgspec.json.encode(texts[-1])
        assert id(texts[-1]) in binding.records
    held = [text for text in texts if id(text) in binding.records]
    assert held == texts[-len(held) :]
    assert sum(map(sys.getsizeof, held)) <= 64_000
    # What they take once they are encoded is what counts, and no fewer are held than there is room for.
    for text in held:
        msgspec.json.encode(text)
    assert 35_000 <= sum(map(sys.getsizeof, held)) <= 64_000


def test_the_texts_go_with_their_lineage():
    lineage = Lineage(RUN)
    at = {id(lineage.bind(f"text {number}", A1)) for number in range(10)}
    assert at <= binding.records.keys()
    del lineage
    gc.collect()
    assert at.isdisjoint(binding.records)


def test_what_is_prepared_holds_nothing_of_the_request(lineage):
    message = lineage.bind(tool(lineage.bind("a whole result", A1)), A1)
    gone = weakref.ref(message)
    prepared = lineage.prepare("x", [message])
    del message
    assert gone() is None
    prepared.submitted()
    assert len(lineage.occurrences("a1")) == 1


@pytest.mark.parametrize(
    "again",
    [
        copy.copy,
        copy.deepcopy,
        lambda thing: pickle.loads(pickle.dumps(thing)),  # noqa: S301 - its own
        lambda thing: json.loads(json.dumps(thing)),
        lambda thing: thing.copy(),
        lambda thing: thing[:] if isinstance(thing, list) else {**thing},
    ],
    ids=["copy", "deepcopy", "pickle", "json", "own-copy", "spread"],
)
@pytest.mark.parametrize("thing", [{"rows": [1, 2]}, [1, {"a": 2}]], ids=["dict", "list"])
def test_a_copy_is_plain_equal_and_unknown(lineage, again, thing):
    bound = lineage.bind(thing, A1)
    copied = again(bound)
    assert copied == thing
    assert type(copied) is type(thing)
    assert links(lineage, tool(bound), tool(copied)) == [Link.BOUND, Link.UNKNOWN]


@pytest.mark.parametrize(
    "again",
    [
        lambda text: pickle.loads(pickle.dumps(text)),  # noqa: S301 - its own
        lambda text: json.loads(json.dumps(text)),
        lambda text: text + "",
        lambda text: f"{text}\n",
        lambda text: text.upper().lower(),
        lambda text: "".join(list(text)),
    ],
    ids=["pickle", "json", "plus-nothing", "f-string", "changed-back", "joined"],
)
def test_a_text_made_of_a_bound_one_is_unknown_unless_it_is_the_same_object(lineage, again):
    text = lineage.bind("a whole result", A1)
    made = again(text)
    assert links(lineage, tool(made)) == [Link.BOUND if made is text else Link.UNKNOWN]


def test_a_deep_copy_of_a_message_still_has_the_very_text_that_was_bound(lineage):
    message = tool(lineage.bind("a whole result", A1))
    assert links(lineage, copy.deepcopy(message)) == [Link.BOUND]


CHANGES = {
    "value": lambda message: message.update(content="something else"),
    "added": lambda message: message.update(name="x"),
    "removed": lambda message: message.pop("name", message.pop("extra")),
    "nested": lambda message: message["parts"][0].update(text="something else"),
    "nested-longer": lambda message: message["parts"].append({}),
    "type": lambda message: message.update(extra=True),
    "float": lambda message: message.update(extra=1.0),
}


@pytest.mark.parametrize("change", CHANGES)
def test_an_object_that_was_changed_after_it_was_bound_is_unknown(lineage, change):
    message = {**tool("a whole result"), "extra": 1, "parts": [{"text": "a"}]}
    bound, model = lineage.bind(message, A1), lineage.bind(Model(content=copy.deepcopy(message)), A1)
    assert links(lineage, bound, model) == [Link.BOUND, Link.BOUND]
    CHANGES[change](bound)
    CHANGES[change](model.content)
    assert links(lineage, bound, model) == [Link.UNKNOWN, Link.UNKNOWN]
    assert links(lineage, tool(lineage.inherit("made of it", of=bound))) == [Link.UNKNOWN]
    # Bound again, it is what it is said to be now.
    assert links(lineage, lineage.bind(bound, A1)) == [Link.BOUND]


def test_the_original_of_a_bound_dict_may_change_at_its_top(lineage):
    original = tool("a whole result")
    bound = lineage.bind(original, A1)
    original["content"] = "something else"
    assert bound["content"] == "a whole result"
    assert links(lineage, bound, original) == [Link.BOUND, Link.UNKNOWN]


def test_only_the_first_values_of_a_large_object_are_compared(lineage):
    rows = lineage.bind(list(range(100_000)), A1)
    rows[-2] = "changed"
    assert links(lineage, tool(rows[:])) == [Link.UNKNOWN]
    part = lineage.cut_rows(rows, 0, 3)
    assert links(lineage, tool(part)) == [Link.BOUND]
    assert links(lineage, rows) == [Link.BOUND]
    rows.append("longer")
    assert links(lineage, tool(lineage.cut_rows(rows, 0, 3))) == [Link.UNKNOWN]


def test_what_refers_to_itself_and_what_explodes_come_to_an_end(lineage):
    circle = tool(lineage.bind("a whole result", A1))
    circle["self"] = circle
    layers: list[object] = ["x"]
    for _ in range(60):
        layers = [layers] * 10
    deep = lineage.bind("deep down", A1)
    for _ in range(100_000):
        deep = [deep]
    assert Link.BOUND in links(lineage, circle)
    assert set(links(lineage, tool(layers))) == {Link.UNKNOWN}
    assert links(lineage, tool(deep)) == [Link.UNKNOWN]
    assert lineage.bind(circle, A1) == circle or lineage.unbound == 0
    # A hundred thousand lists in each other are taken apart one by one: their own destructor is deep.
    while isinstance(deep, list):
        deep = deep.pop()


def test_fields_that_look_like_results_inside_a_result_are_its_content(lineage):
    content = [
        {"deep": {"type": "tool_result", "tool_use_id": "forged"}, "functionResponse": {"id": "forged"}}
    ]
    message = {"role": "tool", "tool_call_id": "c1", "content": [{"type": "json", "json": content}]}
    assert links(lineage, message) == [Link.UNKNOWN]
    assert [each.call_id for each in lineage.unlinked()] == ["c1"]


@pytest.mark.parametrize("nonsense", [None, 1, [], {}, "x", float("nan"), object()])
def test_nonsense_in_a_messages_fields_changes_nothing(lineage, nonsense):
    message = {"role": nonsense, "type": nonsense, "tool_call_id": nonsense, "content": nonsense, 3: nonsense}
    bound = lineage.bind("a whole result", A1)
    assert Link.BOUND in links(lineage, message, nonsense, {**message, "content": [bound]})


class Raising(dict[str, object]):
    def values(self):
        raise ValueError

    def items(self):
        raise ValueError

    def get(self, _, __=None):
        raise ValueError


def test_an_object_that_raises_when_it_is_looked_at_is_unknown_and_breaks_nothing(lineage):
    raising = Raising(role="tool")
    assert lineage.bind(raising, A1) is raising
    assert links(lineage, raising, tool(lineage.bind("a whole result", A1))) == [Link.UNKNOWN, Link.BOUND]


def test_a_copy_of_what_refers_to_itself_does_too(lineage):
    for circle in (lineage.bind({"a": 1}, A1), lineage.bind([1], A1)):
        circle.update(self=circle) if isinstance(circle, dict) else circle.append(circle)
        copied = copy.deepcopy(circle)
        assert type(copied) in (dict, list)
        assert (copied["self"] if isinstance(copied, dict) else copied[1]) is copied


def test_parts_of_one_result_in_one_text_are_both_there(lineage):
    rows = lineage.bind(list(range(100)), A1)
    text = lineage.inherit(
        "rows 0, 1 and 10, 11", of=[lineage.cut_rows(rows, 0, 2), lineage.cut_rows(rows, 10, 12)]
    )
    lineage.prepare("x", [tool(text)]).submitted()
    assert [(each.view.start, each.view.stop) for each in lineage.occurrences("a1")] == [(0, 2), (10, 12)]


def test_a_summary_of_thousands_of_results_carries_them_all():
    lineage = Lineage(RUN)
    every = [lineage.bind(f"result {at}", ResultRef(RUN, f"b{at}")) for at in range(5_000)]
    summary = lineage.inherit({"role": "user", "content": "All of them."}, of=[tool(each) for each in every])
    lineage.prepare("x", [summary] * 3).submitted()
    assert len(lineage.occurrences("b4999")) == 3


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=12,
)


@given(st.lists(JSON, max_size=4), st.lists(JSON, max_size=4))
def test_whatever_is_equal_to_a_result_is_never_linked(results, messages):
    lineage = Lineage(RUN)
    kept = [lineage.bind(result, A1) for result in results]
    again = [tool(copy.deepcopy(result)) for result in results] + [tool(message) for message in messages]
    lineage.prepare("x", again).submitted()
    assert lineage.occurrences("a1") == ()
    assert len(lineage.unlinked()) == len(again)
    assert len(kept) == len(results)


def test_ten_thousand_messages_are_found_and_the_oldest_are_forgotten_by_count():
    lineage = Lineage(RUN, most_occurrences=15_000)
    messages = [
        tool(lineage.bind(f"result {at}", ResultRef(RUN, f"b{at}"))) if at % 2 else tool(f"result {at}")
        for at in range(10_000)
    ]
    lineage.prepare("x", messages).submitted()
    assert len(lineage.unlinked()) == 5_000
    assert [each.position for each in lineage.occurrences("b7777")] == [7777]
    lineage.prepare("y", messages).submitted()
    assert lineage.forgotten == 10_000
    assert [each.exchange for each in lineage.occurrences("b7777")] == ["y"]


def test_a_request_that_carries_nothing_takes_no_memory():
    lineage = Lineage(RUN)
    lineage.prepare("x", [{"role": "user", "content": "hello"}]).submitted()
    gc.collect()
    tracemalloc.start()
    for at in range(2_000):
        lineage.prepare(f"x{at}", [{"role": "user", "content": "hello"}]).submitted(f"try-{at}")
    gc.collect()
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept < 20_000


def test_an_action_too_many_is_unknown_and_none_before_it_is_forgotten():
    lineage = Lineage(RUN, most_actions=2)
    texts = [lineage.bind(f"result {at}", ResultRef(RUN, f"a{at}")) for at in range(4)]
    assert lineage.unbound == 2
    lineage.prepare("x", [tool(text) for text in texts]).submitted()
    assert [len(lineage.occurrences(f"a{at}")) for at in range(4)] == [1, 1, 0, 0]
    lineage.made(ResultRef(RUN, "a0", 2))
    assert links(lineage, tool(texts[0])) == [Link.REPLACED]


def test_threads_bind_prepare_and_submit_at_once(lineage):
    ready = threading.Barrier(8)

    def work(number):
        ready.wait(5)
        for at in range(100):
            bound = lineage.bind(f"result {number} {at}", ResultRef(RUN, f"w{number}"))
            prepared = lineage.prepare(f"x-{number}-{at}", [tool(bound), tool("unbound")])
            prepared.submitted("p1")
            if at % 10 == 0:
                gc.collect(0)
        return [each.request for each in lineage.occurrences(f"w{number}")]

    with ThreadPoolExecutor(8) as pool:
        requests = [number for each in pool.map(work, range(8)) for number in each]
    assert sorted(requests) == list(range(1, 801))
    assert len(lineage.unlinked()) == 800


def test_one_request_that_two_threads_submit_at_once_has_one_number(lineage):
    for at in range(200):
        prepared = lineage.prepare(f"x-{at}", [tool(lineage.bind("a whole result", A1))])
        ready = threading.Barrier(2)

        def submit(attempt, prepared=prepared, ready=ready):
            ready.wait(5)
            return prepared.submitted(attempt)

        with ThreadPoolExecutor(2) as pool:
            assert len(set(pool.map(submit, ("p1", "p2")))) == 1
    assert len(lineage.occurrences("a1")) == 200


def test_a_message_that_another_thread_changes_meanwhile_is_never_linked_wrongly(lineage):
    stop = threading.Event()
    message: dict[str, object] = {f"key-{at}": at for at in range(200)}
    message |= {"role": "tool", "content": lineage.bind("a whole result", A1)}

    def change():
        at = 0
        while not stop.is_set():
            message[f"more-{at % 50}"] = at
            message.pop(f"more-{(at + 25) % 50}", None)
            at += 1

    thread = threading.Thread(target=change)
    thread.start()
    try:
        seen = {tuple(links(lineage, message)) for _ in range(300)}
    finally:
        stop.set()
        thread.join()
    assert seen <= {(Link.BOUND,), (Link.UNKNOWN,)}


async def test_tasks_that_interleave_do_not_mix_their_requests(lineage):
    async def call(number):
        action = ResultRef(RUN, f"t{number}")
        bound = lineage.bind("the same text", action)
        await asyncio.sleep(0)
        prepared = lineage.prepare(f"x-{number}", [tool(bound)])
        await asyncio.sleep(0)
        prepared.submitted()
        return [each.exchange for each in lineage.occurrences(f"t{number}")]

    found = await asyncio.gather(*(call(number) for number in range(50)))
    assert found == [[f"x-{number}"] for number in range(50)]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_process_knows_what_was_bound_and_is_alone_with_its_requests(lineage):
    bound, message = lineage.bind("a whole result", A1), lineage.bind(tool("other"), A1)
    stop = threading.Event()

    def busy():
        while not stop.is_set():
            lineage.prepare("busy", [lineage.bind(tool("text"), ResultRef(RUN, "busy"))]).submitted()

    thread = threading.Thread(target=busy)
    thread.start()
    try:
        for _ in range(8):
            child = os.fork()
            if child == 0:
                found = links(lineage, tool(bound), message, tool("a whole result"))
                os._exit(0 if found == [Link.BOUND, Link.BOUND, Link.UNKNOWN] else 1)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    finally:
        stop.set()
        thread.join()
    assert lineage.occurrences("a1") == ()
