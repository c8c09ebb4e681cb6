"""What can be wrong with a suite or a run of it, as the exceptions that users of suites catch."""

from __future__ import annotations


class ArthurError(Exception):
    """Something about a suite went wrong; one of the kinds below says whose affair it is."""


class ArthurUserError(ArthurError):
    """What was asked for cannot be done as it was asked."""


class UserValueError(ArthurUserError, ValueError):
    """A value that was given does not fit."""


class UserTypeError(ArthurUserError, TypeError):
    """Something of the wrong kind was given."""


class NotFoundError(ArthurUserError, LookupError):
    """There is no suite or run of this name."""


class ArthurInternalError(ArthurError):
    """A run could not be carried out, though everything that was given is right."""
