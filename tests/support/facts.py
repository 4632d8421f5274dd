"""Facts as a toolchain tells them, and the chain of the classic answer."""

from typing import Any, Final

AT: Final = "2026-11-30T08:15:00Z"


def stage(action: str, stage_: str, status: str, **more: Any) -> dict[str, Any]:
    """One stage of an action; its name follows from what it says."""
    said = {"action": action, "tool": "read_table", "stage": stage_, "status": status, **more}
    name = f"stage.{action}.{stage_}.{more.get('execution', 0)}.{status}"
    return {"type": "stage", "fact": name, "at": AT, **said}


def seen(
    exchange: str, action: str | None, form: str = "full", *, link: str = "bound", **more: Any
) -> dict[str, Any]:
    """One object of one submitted request."""
    view = {"form": form, **more.pop("view", {})}
    said = {"exchange": exchange, "request": 1, "position": 0, "link": link, "view": view, **more}
    if action is not None:
        said["action"] = action
    return {"type": "occurrence", "fact": f"seen.{exchange}.{said['position']}", "at": AT, **said}


def surface(exchange: str, verdict: str = "match", check: str = "final", **more: Any) -> dict[str, Any]:
    """One check of a request's tools."""
    said = {"exchange": exchange, "check": check, "verdict": verdict, "tools": 3, **more}
    return {"type": "surface", "fact": f"surface.{exchange}.{check}", "at": AT, **said}


def coverage(file: str, frontier: int, **more: Any) -> dict[str, Any]:
    """How much of a file was read."""
    said = {"file": file, "frontier": frontier, "whole": False, **more}
    return {"type": "coverage", "fact": f"coverage.{file}.{frontier}", "at": AT, **said}


def delivery(item: str, state: str, **more: Any) -> dict[str, Any]:
    """Whether one thing that was promised is there."""
    said = {"item": item, "kind": "file", "state": state, **more}
    return {"type": "delivery", "fact": f"delivery.{item}.{state}", "at": AT, **said}


def classic(action: str = "a-1") -> list[dict[str, Any]]:
    """One execution, succeeded; five rows of it are the view; request 8 holds the reference, request 9 these rows."""
    rows = {"form": "partial", "unit": "rows", "start": 0, "stop": 5, "total": 120, "source_whole": False}
    of = {"call_id": "call_7"}
    return [
        stage(action, "admission", "admitted", **of),
        stage(action, "reservation", "reserved", **of),
        stage(action, "execution", "started", execution=1, **of),
        stage(action, "execution", "succeeded", execution=1, result_version=1, duration_ms=12, **of),
        stage(action, "projection", "projected", result_version=1, view=rows, **of),
        stage(action, "persistence", "persisted", **of),
        stage(action, "reservation", "settled", **of),
        seen("x-8", action, "reference", request=8, position=3, attempt="1", result_version=1, **of),
        seen("x-9", action, "partial", request=9, position=3, attempt="1", result_version=1, view=rows, **of),
    ]
