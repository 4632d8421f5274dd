"""What a check raises when something is not as it must be."""


class Wrong(Exception):
    """A file of the bundle is not what it must be; the words name no content, and no name that somebody else chose."""

    def __init__(self, file: str, problem: str) -> None:
        super().__init__(f"{file}: {problem}")
        self.file = file
        self.problem = problem
