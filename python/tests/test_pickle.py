"""Buffers as values: pickle and copy.deepcopy."""

import copy
import pickle

import numpy as np
import pytest
from conftest import every_item, fill

import reprise
from reprise._files import from_files, to_files


@pytest.mark.parametrize("through", [lambda b: pickle.loads(pickle.dumps(b)), copy.deepcopy])
def test_a_copy_has_the_items_and_a_life_of_its_own(buffer, through):
    fill(buffer, 100)
    twin = through(buffer)
    assert twin.schema == buffer.schema and twin.options == buffer.options
    one, other = every_item(buffer), every_item(twin)
    for name, array in one.items():
        if name != ".returns":
            np.testing.assert_array_equal(array, other[name], name)
    fill(twin, 10, 1000.0)
    assert (len(twin), len(buffer)) == (110, 100)


def test_a_closed_buffer_can_be_pickled_too(buffer):
    fill(buffer, 5)
    buffer.close()
    assert len(pickle.loads(pickle.dumps(buffer))) == 5


@pytest.mark.parametrize("through", [lambda b: pickle.loads(pickle.dumps(b)), copy.deepcopy])
def test_a_schema_can_be_copied(through):
    schema = reprise.Schema().observation("obs", np.uint8, (2, 3)).column("a", bool)
    schema.observation("frame", np.uint8, (32, 32)).compress("frame")
    schema.column("h", np.float16, (4,)).reward().reward("cost").discount("gamma")
    schema.recurrent_state("lstm", np.float32, (2, 8))
    for finite in (False, True):
        twin = through(schema.require_finite(finite))
        assert twin == schema and twin.fields == schema.fields
        assert twin.requires_finite is finite
        assert twin.compressed == schema.compressed == ("frame",)
        twin.column("more", np.int8)
        assert twin != schema


def test_writers_and_samplers_cannot(buffer):
    for one in (buffer.writer(), buffer.sampler(), reprise.SegmentTree(4)):
        with pytest.raises(TypeError):
            pickle.dumps(one)


@pytest.mark.parametrize("name", ["/{}/out", "../out", "within/out"])
def test_files_of_a_copy_stay_in_their_directory(buffer, name, tmp_path):
    files = to_files(buffer)
    files[name.format(tmp_path)] = b"x"
    with pytest.raises(ValueError, match="allowed: a name without directories"):
        from_files(files)
    assert not list(tmp_path.iterdir())
