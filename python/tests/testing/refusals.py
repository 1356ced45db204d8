"""What a call refuses."""

import pytest


def refuses(error, match, call, *arguments, **named):
    """The call raises this error with this text."""
    __tracebackhide__ = True
    with pytest.raises(error, match=match):
        call(*arguments, **named)
