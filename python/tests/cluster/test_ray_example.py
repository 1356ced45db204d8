"""The program in examples/ray, when one of its actors dies."""

import os
import signal
import sys

import pytest
from testing.files import ROOT

pytest.importorskip("ray", reason="Ray is not installed")
pytest.importorskip("torch", reason="PyTorch is not installed")
pytest.importorskip("gymnasium", reason="Gymnasium is not installed")

EXAMPLES = ROOT / "examples"
if not EXAMPLES.is_dir():
    pytest.skip("the examples are not here", allow_module_level=True)

import numpy as np
import ray
import reprise
import reprise.ray
from testing.ray_cluster import PATIENT, SECONDS

sys.path[:0] = [str(EXAMPLES / "ray"), str(EXAMPLES / "python")]
import apex_cartpole


@ray.remote(num_cpus=0, max_concurrency=2)
class Dies:
    def __init__(self, replay, seed):
        self.how = seed[1]

    def set_parameters(self, parameters):
        pass

    def act(self):
        raise RuntimeError("there is no numpy")


@ray.remote(num_cpus=0, max_concurrency=2)
class Killed(Dies.__ray_metadata__.modified_class):
    def act(self):
        os.kill(os.getpid(), signal.SIGKILL)


@ray.remote(num_cpus=0, max_concurrency=2)
class Ends(Dies.__ray_metadata__.modified_class):
    def act(self):
        pass


@pytest.mark.parametrize(
    ("actor", "says"),
    [
        (Dies, "there is no numpy"),
        (Killed, "died"),
        (Ends, "an actor ended before the buffer was closed"),
    ],
)
def test_the_program_ends_with_the_error_of_an_actor_that_died(
    cluster, monkeypatch, tmp_path, actor, says
):
    class Anywhere:
        @staticmethod
        def options(resources):
            return actor

    monkeypatch.setattr(apex_cartpole, "RemoteActor", Anywhere)
    monkeypatch.setattr(apex_cartpole, "BATCH_TIMEOUT", 0.5)
    schema = reprise.Schema().observation("state", np.float32, (4,)).column("action", np.int64)
    with reprise.ray.ReplayBuffer(schema.reward("reward"), 1000, **PATIENT) as replay:
        with pytest.raises((RuntimeError, ray.exceptions.RayError), match=says):
            apex_cartpole.train(replay, 0, SECONDS, str(tmp_path), None)
