"""The cluster that the tests of a file share."""

import pytest


@pytest.fixture(scope="module")
def cluster():
    from testing.ray_cluster import started  # Only where Ray is installed.

    with started() as made:
        yield made
