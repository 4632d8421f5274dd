"""What tests ask of reports."""

from custody_client.verify import Item, Report, State


def failures(report: Report) -> list[Item]:
    return [item for item in report.items if item.state is State.FAILED]


def problems(report: Report) -> str:
    return "\n".join(f"{item.file}: {item.problem}" for item in failures(report))
