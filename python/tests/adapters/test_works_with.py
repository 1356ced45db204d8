"""The programs of examples/python/works_with, to which README.md links, run with the packages that
they are about, and end with at least as many steps as they should."""

import importlib
import re

import pytest
from testing.children import run_script
from testing.files import ROOT

FOLDER = ROOT / "examples" / "python" / "works_with"
if not FOLDER.is_dir():
    pytest.skip("the examples are not here", allow_module_level=True)

# For each program: the modules that it needs, and the least number of steps that it ends with.
PROGRAMS = {
    "envpool_async": (["envpool", "gymnasium"], 1000),
    "gymnasium_vector": (["gymnasium.vector"], 700),
    "jax_learner": (["jax"], 1000),
    "minari_dataset": (["minari", "h5py"], 90),
    "processes": ([], 3000),
    "ray_cluster": (["ray"], 1000),
    "rllib_dqn": (["ray.rllib", "torch"], 100),
    "sb3_dqn": (["stable_baselines3"], 997),
    "torch_learner": (["torch"], 1000),
    "torchrl_loop": (["torchrl", "gymnasium"], 490),
}


def test_every_program_is_here():
    assert {path.stem for path in FOLDER.glob("*.py")} == set(PROGRAMS)


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_program_runs_and_stores_its_steps(name, tmp_path, monkeypatch):
    modules, steps = PROGRAMS[name]
    for module in modules:
        try:
            importlib.import_module(module)
        except ImportError as why:  # Also if a part is missing, such as Ray's RLlib.
            pytest.skip(str(why))
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    monkeypatch.setenv("RAY_memory_monitor_refresh_ms", "0")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.chdir(tmp_path)
    program = run_script(FOLDER / f"{name}.py")
    assert program.returncode == 0, program.stderr
    assert int(re.findall(r"^(\d+) steps", program.stdout, re.M)[-1]) >= steps
