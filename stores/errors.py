"""The root of the error tree: every error a person may see says what happened and what to do next."""


class LineageError(Exception):
    """Something a person can act on; its text becomes one line on stderr.

    Subclasses live beside the code that knows the cause. `serve.exits` turns them into exit codes.
    """

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\n  {self.hint}" if self.hint else self.message
