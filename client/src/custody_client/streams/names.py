"""Ids, names and roles as providers send them: short texts, or nothing."""

_LONGEST, _ROLE = 256, 32


def name_of(value: object) -> str | None:
    """Return an id or a name, if it is one: a text that is not empty, and of a long one its beginning."""
    return value[:_LONGEST] if isinstance(value, str) and value else None


def role_of(value: object) -> str | None:
    """Return a role, if it is one."""
    return value[:_ROLE] if isinstance(value, str) and value else None
