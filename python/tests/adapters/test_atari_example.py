"""The agent of examples/python/atari learns for a few hundred steps."""

import re
import runpy

import pytest
from testing.files import ROOT

pytest.importorskip("torch")
pytest.importorskip("gymnasium")
pytest.importorskip("ale_py.vector_env")

PROGRAM = ROOT / "examples" / "python" / "atari" / "dqn_atari.py"


def test_the_program_learns_prints_figures_and_draws(tmp_path, capsys):
    pytest.importorskip("matplotlib")
    main = runpy.run_path(str(PROGRAM))["main"]
    plot = tmp_path / "returns.svg"
    size = "--steps 1000 --environments 8 --longest 400 --begin 200 --batch 8"
    options = ["--game", "breakout", "--device", "cpu", *size.split(), "--target", "0"]
    assert main([*options, "--plot", str(plot)]) == 0
    lines = re.findall(
        r"(\d+) steps, return +(\S+); +\d+ frames/s, +[\d.]+ updates/s; "
        r"replay: +[\d.]+% of the time, ([\d.]+) GB per million steps\n",
        capsys.readouterr().out,
    )
    steps, mean, gigabytes = map(float, lines[-1])
    assert steps >= 1000 and 0 <= mean < 20
    assert 0.1 < gigabytes < 5  # A million uncompressed frames take 7 GB.
    assert "<svg" in plot.read_text("utf-8")


def test_learning_does_not_begin_before_there_is_a_batch():
    main = runpy.run_path(str(PROGRAM))["main"]
    short = "--game breakout --device cpu --steps 64 --environments 4 --begin 4 --batch 32"
    assert main(short.split()) == 0


def test_a_target_that_is_missed_is_a_failure():
    main = runpy.run_path(str(PROGRAM))["main"]
    short = "--game breakout --device cpu --steps 64 --environments 4 --begin 64 --target 500"
    assert main(short.split()) == 1
