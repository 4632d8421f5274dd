"""Whether the content of a run may be captured, decided from its declaration alone, before any content is touched.

Fails closed: in everything the strictest of all declarations wins, and what was narrowed is never widened again.
"""

from dataclasses import dataclass, replace
from datetime import datetime

from policies.decisions import ALLOW, Decision, Refuse
from policies.kinds import Content, Kind, Mode
from policies.reasons import Reason
from policies.retention import aware, expired, retain_until, shorter
from policies.scope_policy import ScopePolicy

__all__ = ["ScopePolicy", "Standing", "Wish", "admitted", "declare", "narrow"]


@dataclass(frozen=True, slots=True)
class Wish:
    """What one declaration asks; whoever does not say asks for what the scope says for those."""

    mode: Mode = Mode.NORMAL
    content: Content | None = None
    retention_s: int | None = None


@dataclass(frozen=True, slots=True)
class Standing:
    """What holds for a run after all its declarations."""

    mode: Mode
    content: Content
    sampled: bool
    retain_until: datetime
    kinds: frozenset[Kind]


def declare(policy: ScopePolicy, wish: Wish, drawn: float, now: datetime) -> Standing:
    """Take a run's first declaration; `drawn` in [0, 1) decides once whether the run is sampled."""
    if not 0 <= drawn < 1:
        raise ValueError("a draw is at least 0 and below 1")
    return Standing(
        mode=wish.mode,
        content=policy.content if wish.content is None else wish.content,
        sampled=drawn < policy.sampling,
        retain_until=retain_until(now, wish.retention_s, policy.retention_default_s, policy.retention_max_s),
        kinds=policy.kinds,
    )


def narrow(
    standing: Standing,
    policy: ScopePolicy,
    wish: Wish,
    now: datetime,
    declared_at: datetime,
) -> Standing:
    """Take a later declaration: the strictest wins, widening is ignored, what was drawn stays.

    A retention counts from the first declaration, so that the same wish said again changes nothing; one that would
    have ended already ends now.
    """
    asked = declare(policy, wish, 0.0, declared_at)
    ends_at = max(asked.retain_until, aware(now))
    return replace(
        standing,
        mode=Mode.TEMPORARY if Mode.TEMPORARY in (standing.mode, asked.mode) else Mode.NORMAL,
        content=Content.OPT_OUT if Content.OPT_OUT in (standing.content, asked.content) else Content.ALLOW,
        retain_until=shorter(standing.retain_until, ends_at),
        kinds=standing.kinds & asked.kinds,
    )


def admitted(standing: Standing, now: datetime) -> Decision:
    """Decide whether a run's content may be captured now; asked at capture and again before the write."""
    if standing.mode is not Mode.NORMAL:
        return Refuse(Reason.TEMPORARY_MODE)
    if standing.content is not Content.ALLOW:
        return Refuse(Reason.CONTENT_OPT_OUT)
    if standing.sampled is not True:
        return Refuse(Reason.NOT_SAMPLED)
    if expired(standing.retain_until, now):
        return Refuse(Reason.RETENTION_EXPIRED)
    return ALLOW
