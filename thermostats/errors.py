"""Errors a user can act on: what, where, what was got, what is allowed, what to do next."""

from __future__ import annotations


class ThermostatsError(Exception):
    """The thing asked for failed; the command line exits with 1.

    The message reads ``what (where): got …; allowed …. Next: …``; empty parts are left out.
    """

    exit_code = 1

    def __init__(
        self, what: str, *, where: object = "", got: object = "", allowed: str = "", next_step: str = ""
    ) -> None:
        self.what, self.where, self.got = what, str(where), str(got)
        self.allowed, self.next_step = allowed, next_step
        message = what + (f" ({self.where})" if self.where else "")
        details = [f"got {self.got}"] * bool(self.got) + [f"allowed: {allowed}"] * bool(allowed)
        message += (": " + "; ".join(details) if details else "") + "."
        super().__init__(message + (f" Next: {next_step}" if next_step else ""))


class UsageError(ThermostatsError):
    """The command or function was called wrongly; the command line exits with 2."""

    exit_code = 2


class DataError(ThermostatsError):
    """A table or file does not say what it should; nothing was written."""
