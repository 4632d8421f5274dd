"""Steps are facts of their own: none is concluded from another, and a failed assembly is no failed execution."""

import pytest

from custody_toolchain.intake import Outcome, Result, Step, Steps, read_answer, read_plan

PLAN = '[{"name":"f","arguments":{}},{"name":"g","arguments":{}}]'


def result(text: str = PLAN) -> Result:
    return read_plan(text)


def test_a_plan_that_was_parsed_says_nothing_about_what_follows():
    steps = Steps(result())
    assert [(fact.step, fact.outcome, fact.actions) for fact in steps.facts] == [
        (Step.PLAN_PARSE, Outcome.DONE, 2)
    ]
    for step in (Step.POLICY_CHECK, Step.TOOL_RUN, Step.TOOL_COMMIT):
        assert steps.of(step, 0) is None
    assert steps.of(Step.TASK_COMPLETE) is None


def test_parsing_whole_is_not_executing_all():
    steps = Steps(result())
    steps.record(Step.POLICY_CHECK, Outcome.DONE, 0)
    steps.record(Step.TOOL_RUN, Outcome.DONE, 0)
    steps.record(Step.POLICY_CHECK, Outcome.REFUSED, 1, "not_allowed")
    assert steps.of(Step.TOOL_RUN, 0) is Outcome.DONE
    assert steps.of(Step.TOOL_COMMIT, 0) is None
    assert steps.of(Step.POLICY_CHECK, 1) is Outcome.REFUSED
    with pytest.raises(ValueError, match="not done"):
        steps.record(Step.TOOL_RUN, Outcome.DONE, 1)
    steps.record(Step.TASK_COMPLETE, Outcome.FAILED, code="partial")
    assert [fact.code for fact in steps.facts] == [None, None, None, "not_allowed", "partial"]


def test_an_answer_that_could_not_be_assembled_cannot_be_written_down_as_an_execution():
    for refused in (result("{"), read_answer("chat.completions", {"error": {}})):
        steps = Steps(refused)
        assert steps.facts[0].outcome is Outcome.REFUSED
        assert steps.facts[0].code == str(refused.refusal and refused.refusal.why)
        for step in (Step.POLICY_CHECK, Step.TOOL_RUN, Step.TOOL_COMMIT):
            with pytest.raises(ValueError, match="no such action"):
                steps.record(step, Outcome.FAILED, 0)
        assert len(steps.facts) == 1


def test_a_failed_run_is_not_committed_and_a_run_is_tried_again():
    steps = Steps(result())
    steps.record(Step.POLICY_CHECK, Outcome.DONE, 0)
    steps.record(Step.TOOL_RUN, Outcome.FAILED, 0, "timeout")
    with pytest.raises(ValueError, match="tool_commit follows tool_run"):
        steps.record(Step.TOOL_COMMIT, Outcome.DONE, 0)
    steps.record(Step.TOOL_RUN, Outcome.DONE, 0)
    steps.record(Step.TOOL_COMMIT, Outcome.DONE, 0)
    assert len(steps.facts) == 5


@pytest.mark.parametrize(
    ("step", "ordinal"),
    [(Step.PLAN_PARSE, None), (Step.PLAN_PARSE, 0), (Step.TASK_COMPLETE, 0), (Step.TOOL_RUN, None)],
)
def test_a_step_names_its_action_and_a_task_none(step, ordinal):
    with pytest.raises(ValueError, match="ordinal"):
        Steps(result()).record(step, Outcome.DONE, ordinal)


def test_a_sentence_is_no_code():
    steps = Steps(result())
    assert steps.record(Step.POLICY_CHECK, Outcome.REFUSED, 0, "The key sk-live-1 is wrong").code == "other"
