"""Errors of calls."""

import pytest


def refuses(error, match, call, *arguments, **named):
    """Checks that a call raises this error, and that its text matches."""
    __tracebackhide__ = True
    with pytest.raises(error, match=match):
        call(*arguments, **named)
