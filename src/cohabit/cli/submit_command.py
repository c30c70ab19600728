"""`cohabit submit` for typer: options in a script come before those typed, and errors in them name the line."""

from __future__ import annotations

from typing import Any

from typer.core import TyperCommand


class SubmitCommand(TyperCommand):
    """Options end where the command begins; a script's own options come before those typed, so that the typed win."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put the script's options in front."""
        if not ctx.resilient_parsing:
            args = self._script_words(ctx, args) + args
        return super().parse_args(ctx, args)

    def _script_words(self, ctx: Any, args: list[str]) -> list[str]:
        from cohabit.app.client.submission import is_script, script_options
        from cohabit.model.errors import InputError

        command = self.make_parser(ctx).parse_args(args=list(args))[0].get("command") or ()
        path = is_script(command[0]) if command else None
        found: list[str] = []
        for number, words in [] if path is None else script_options(path):
            where = f"{path}, line {number}"
            try:
                left = self.make_parser(ctx).parse_args(args=list(words))[0].get("command") or ()
            except Exception as error:
                explain = getattr(error, "format_message", None)
                if explain is None:
                    raise
                raise InputError(explain().rstrip("."), where, "see `cohabit submit --help`") from None
            if left:
                raise InputError(f"{left[0]!r} is not an option", where, "only options belong there")
            found += words
        return found
