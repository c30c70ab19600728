"""The one exception that means "the input or the call is wrong": shown as one sentence, exit status 2."""


class InputError(Exception):
    """What is wrong, where it is, and what to do about it, for a person who has never seen the project."""

    def __init__(self, what: str, where: str = "", fix: str = "") -> None:
        self.what, self.where, self.fix = what, where, fix
        super().__init__(what, where, fix)

    def __str__(self) -> str:
        place = f"{self.where}: " if self.where else ""
        advice = f"; {self.fix}" if self.fix else ""
        return f"{place}{self.what}{advice}"
