"""examples/ray: what it does when an actor dies."""

import os
import signal
import sys

import pytest
from testing.files import ROOT

pytest.importorskip("ray", reason="Ray is not installed")
pytest.importorskip("torch", reason="PyTorch is not installed")

EXAMPLES = ROOT / "examples"
if not EXAMPLES.is_dir():
    pytest.skip("the examples are not here", allow_module_level=True)

import ray
import reprise
import reprise.ray
from testing.ray_cluster import SECONDS, make

sys.path[:0] = [str(EXAMPLES / "ray"), str(EXAMPLES / "python")]
import apex_cartpole


class Dies:
    def __init__(self, how):
        self.how = how

    def take(self, parameters):
        pass

    def act(self):
        if self.how == "is killed":
            os.kill(os.getpid(), signal.SIGKILL)
        if self.how == "raises":
            raise RuntimeError("there is no numpy")


@pytest.mark.parametrize(
    ("how", "says"),
    [
        ("raises", "there is no numpy"),
        ("is killed", "died"),
        ("ends", "an actor ended before the buffer was closed"),
    ],
)
def test_why_an_actor_died_is_said_at_once(cluster, monkeypatch, tmp_path, how, says):
    class Actor:
        @staticmethod
        def options(resources):
            return Actor

        @staticmethod
        def remote(*_):
            return ray.remote(num_cpus=0, max_concurrency=2)(Dies).remote(how)

    monkeypatch.setattr(apex_cartpole, "Actor", Actor)
    monkeypatch.setattr(apex_cartpole, "LOOK_SECONDS", 0.5)
    schema = reprise.Schema().observation("state", "f4", (4,)).column("action", "i8").reward()
    with make(1000, schema, shards=1) as replay:
        with pytest.raises((RuntimeError, ray.exceptions.RayError), match=says):
            apex_cartpole.train(replay, 0, SECONDS, str(tmp_path), None)
