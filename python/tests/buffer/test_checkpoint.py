import array
import gc
import os
import weakref

import numpy as np
import pytest
from testing.buffers import every_item, fill, plain_buffer
from testing.children import run_python
from testing.refusals import refuses

import reprise


def test_a_loaded_buffer_equals_the_saved_one(buffer, tmp_path):
    fill(buffer, 300)
    sampler = buffer.sampler(seed=5)
    sampler.sample(8)
    result = buffer.save(
        tmp_path / "saved", samplers=[sampler], compression=1, bytes_per_second=10**9
    )
    assert isinstance(result, reprise.SaveResult)
    assert (result.manifest, result.chunks_reused) == (1, 0)
    assert result.chunks_written > 0 and result.bytes_written > 0
    loaded = reprise.ReplayBuffer.load(str(tmp_path / "saved")).buffer
    assert loaded.schema == buffer.schema
    assert loaded.options == buffer.options
    before, after = every_item(buffer), every_item(loaded)
    for name, value in before.items():
        if name != ".returns":  # A dict, whose arrays follow from the rewards.
            assert np.array_equal(value, after[name]), name
    resumed = loaded.sampler(resume=0)
    assert np.array_equal(resumed.sample(8).item_keys, sampler.sample(8).item_keys)


def test_progress_is_reported_for_every_chunk(tmp_path):
    buffer = plain_buffer(4096, chunk_steps=64)
    fill(buffer, 1000)
    reports = []
    result = buffer.save(tmp_path, progress=reports.append)
    assert isinstance(reports[0], reprise.SaveProgress)
    assert [p.chunks_written for p in reports] == list(range(1, len(reports) + 1))
    assert (len(reports), result.left_out_steps) == (result.chunks_written, 0)


def test_steps_evicted_during_a_save_are_counted_as_left_out(tmp_path):
    buffer = plain_buffer(100, shards=1, chunk_steps=10)
    fill(buffer, 100)
    later = [200]
    progress = lambda _: later and fill(buffer, later.pop())
    left_out = buffer.save(tmp_path, progress=progress).left_out_steps
    assert left_out > 0 and len(reprise.ReplayBuffer.load(tmp_path).buffer) == 100 - left_out


def test_an_error_in_the_progress_function_ends_the_save(buffer, tmp_path):
    fill(buffer, 300)
    buffer.save(tmp_path)

    def fail(progress):
        raise LookupError("enough")

    refuses(LookupError, "enough", buffer.save, tmp_path, incremental=False, progress=fail)
    assert len(reprise.ReplayBuffer.load(tmp_path).buffer) == 300


def test_restoring_in_place(buffer, tmp_path):
    fill(buffer, 30)
    buffer.save(tmp_path)
    fill(buffer, 20, first=500)
    writer, sampler = buffer.writer(), buffer.sampler()
    buffer.restore(tmp_path)
    assert every_item(buffer)["state"][:, 0].tolist() == list(range(30))
    with pytest.raises(reprise.Closed):
        writer.begin_episode(state=[0, 0])
    with pytest.raises(reprise.Closed):
        sampler.sample(1)
    fill(buffer, 5)
    assert len(buffer) == 35


def test_errors_say_kind_and_file(buffer, tmp_path):
    with pytest.raises(reprise.CheckpointError) as error:
        reprise.ReplayBuffer.load(tmp_path / "nothing")
    assert (error.value.kind, error.value.errno) == ("missing", 0) or error.value.errno > 0
    assert "nothing" in error.value.file
    assert isinstance(error.value, RuntimeError)
    fill(buffer, 10)
    refuses(ValueError, "keep", buffer.save, tmp_path, keep=0)
    buffer.save(tmp_path)
    other = plain_buffer(10)
    with pytest.raises(reprise.CheckpointError) as error:
        other.restore(tmp_path)
    assert error.value.kind == "mismatch"
    for file in tmp_path.rglob("*"):
        if file.is_file() and file.stat().st_size:
            data = bytearray(file.read_bytes())
            data[len(data) // 2] ^= 0xFF
            file.write_bytes(data)
    with pytest.raises(reprise.CheckpointError) as error:
        reprise.ReplayBuffer.load(tmp_path)
    assert error.value.kind == "damaged" and error.value.file


def test_attachments_come_back_with_the_checkpoint(buffer, tmp_path):
    fill(buffer, 30)
    parameters = np.arange(1000, dtype=np.float32)
    buffer.save(tmp_path, attachments={"parameters": parameters, "note": b"seven"})
    loaded, skipped, got = reprise.ReplayBuffer.load(tmp_path)
    assert skipped == []
    assert sorted(got) == ["note", "parameters"] and got["note"] == b"seven"
    assert np.array_equal(np.frombuffer(got["parameters"], np.float32), parameters)
    loaded.save(tmp_path)
    assert loaded.restore(tmp_path) == reprise.RestoreResult(skipped=[], attachments={})


def test_attachments_have_to_be_bytes_in_one_piece(buffer, tmp_path):
    said = "save: attachments.'a'. is of type list; allowed: bytes-like"
    refuses(TypeError, said, buffer.save, tmp_path / "saved", attachments={"a": [1, 2]})
    for strided in (np.zeros((4, 4))[:, 1], np.zeros((3, 4)).T, memoryview(b"1234")[::2]):
        said = "attachments.'a'. cannot be read: .*contiguous; allowed"
        refuses(ValueError, said, buffer.save, tmp_path / "saved", attachments={"a": strided})
    for objects in (np.array([object()]), np.zeros(2, "O,M8[s]"), memoryview(np.array([[]], "O"))):
        with pytest.raises(TypeError, match="attachments.'a'. .*references to objects"):
            buffer.save(tmp_path / "saved", attachments={"a": objects})
    refuses(ValueError, "allowed: 1 to 200", buffer.save, tmp_path / "saved", attachments={"": b""})
    assert not (tmp_path / "saved").exists()


def test_load_warns_of_a_damaged_checkpoint_and_takes_the_one_before(buffer, tmp_path):
    fill(buffer, 30)
    buffer.save(tmp_path)
    fill(buffer, 30)
    buffer.save(tmp_path)
    newest = max(tmp_path.glob("manifest-*"))
    newest.write_bytes(newest.read_bytes()[:-1])
    with pytest.warns(RuntimeWarning, match="checkpoint 2 is damaged.*manifest"):
        loaded = reprise.ReplayBuffer.load(tmp_path)
    assert len(loaded.buffer) == 30
    (skipped,) = loaded.skipped
    assert skipped.manifest == 2 and isinstance(skipped.error, reprise.CheckpointError)
    assert skipped.error.kind == "damaged" and skipped.error.file == str(newest)


def test_only_samplers_are_saved(buffer, tmp_path):
    fill(buffer, 30)
    sampler = buffer.sampler()
    for wrong in (3, None, buffer):
        with pytest.raises(TypeError, match="save: samplers has .*; allowed: Samplers"):
            buffer.save(tmp_path / "saved", samplers=[sampler, wrong])
    with pytest.raises(ValueError, match="samplers.1. is samplers.0. too; allowed: each once"):
        buffer.save(tmp_path / "saved", samplers=[sampler, sampler])
    other = plain_buffer()
    with pytest.raises(ValueError, match="samplers.1. is of another buffer; allowed: of this one"):
        buffer.save(tmp_path / "saved", samplers=[sampler, other.sampler()])
    assert not (tmp_path / "saved").exists()
    assert len(sampler.sample(4)) == 4


def test_a_save_keeps_its_samplers_alive(tmp_path):
    class Allocator:
        def __call__(self, nbytes):
            return np.empty(nbytes, np.uint8)

    buffer = plain_buffer(4096, chunk_steps=64)
    fill(buffer, 1000)
    allocator = Allocator()
    alive = weakref.ref(allocator)  # The sampler keeps the allocator alive.
    samplers = [buffer.sampler(seed=3, allocator=allocator)]
    expected = buffer.sampler(seed=3).sample(8).item_keys
    del allocator
    seen = []

    def drop(progress):
        samplers.clear()
        gc.collect()
        seen.append(alive() is not None)

    buffer.save(tmp_path, samplers=samplers, progress=drop)
    assert len(seen) > 1 and all(seen)
    gc.collect()
    assert alive() is None
    resumed = reprise.ReplayBuffer.load(tmp_path).buffer.sampler(resume=0)
    assert np.array_equal(resumed.sample(8).item_keys, expected)


def test_errors_show_paths_that_are_not_utf8(buffer, tmp_path):
    fill(buffer, 30)
    missing = tmp_path / os.fsdecode(b"\xff")
    with pytest.raises(reprise.CheckpointError) as error:
        reprise.ReplayBuffer.load(missing)
    assert str(missing) in str(error.value) and str(missing) in error.value.file
    with pytest.raises(OSError) as error:
        plain_buffer(storage=missing / "there")
    assert str(missing) in str(error.value)
    saved = tmp_path / os.fsdecode(b"saved \xfe")
    for _ in range(2):
        buffer.save(saved)
    newest = max(saved.glob("manifest-*"))
    newest.write_bytes(newest.read_bytes()[:-1])
    with pytest.warns(RuntimeWarning, match="checkpoint 2 is damaged") as warned:
        assert len(reprise.ReplayBuffer.load(saved).buffer) == 30
    assert "manifest" in str(warned[0].message)


def test_attachments_of_many_kinds(buffer, tmp_path):
    given = {
        "time": np.array([1, 2, 3], "M8[s]"),
        "cube": np.arange(24.0).reshape(2, 3, 4),
        "view": memoryview(np.arange(6, dtype=np.int16).reshape(2, 3)),
        "array": array.array("d", [1.5, 2.5]),
        "record": np.zeros(3, [("Offset", "<i4")]),
        "none": bytearray(),
    }
    buffer.save(tmp_path, attachments=given)
    assert reprise.ReplayBuffer.load(tmp_path).attachments == {
        name: value.tobytes() if name != "none" else b"" for name, value in given.items()
    }


NESTED = """
import sys
from testing.buffers import fill, plain_buffer

directory = sys.argv[1]
buffer, other = plain_buffer(), plain_buffer()
fill(buffer, 10)
fill(other, 10)
errors = []


def progress(_):
    for call in (
        lambda: buffer.save(directory + "/b"),
        lambda: buffer.restore(directory + "/a"),
        lambda: other.save(directory + "/c", progress=lambda _: buffer.save(directory + "/b")),
    ):
        try:
            call()
        except RuntimeError as error:
            errors.append(str(error))


buffer.save(directory + "/a")
buffer.save(directory + "/a", incremental=False, progress=progress)
other.save(directory + "/d", progress=lambda _: buffer.save(directory + "/b"))
for error in errors:
    print(error)
"""


def test_a_progress_function_cannot_save_its_buffer(tmp_path):
    ended = run_python(NESTED, tmp_path)
    assert ended.returncode == 0, ended.stderr
    refused = ended.stdout.splitlines()
    assert "ReplayBuffer.save: called by the progress function of a save of this" in refused[0]
    assert "ReplayBuffer.restore: 1 other call of this buffer" in refused[1]
    assert refused[2] == refused[0] and len(refused) % 3 == 0
    assert (tmp_path / "b").exists()
