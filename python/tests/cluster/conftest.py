"""The cluster that the tests of a file share."""

import pytest


@pytest.fixture(scope="module")
def cluster():
    from testing.ray_cluster import started  # Not at the top, because Ray may not be installed.

    with started() as made:
        yield made
