"""Python has every option and statistic of C++: the lists of members in python/src and of counters
in reprise.metrics are complete."""

import pathlib
import re

import pytest
from testing.buffers import plain_buffer

from reprise import metrics

ROOT = pathlib.Path(__file__).parents[3]


def read(name):
    path = ROOT / name
    if not path.exists():
        pytest.skip(f"{name} is not there")
    return path.read_text(encoding="utf-8")


def members(struct):
    found = re.search(rf"\nstruct {struct} {{(.*?)\n}};", read("include/reprise/options.hpp"), re.S)
    names = re.findall(r"^  [\w:<>]+ (\w+)(?: = .*)?;", found[1], re.M)
    assert len(names) > 10
    return set(names)


def test_python_has_every_option_of_cpp():
    assert members("Options") == set(plain_buffer(10).options)


def test_python_has_every_statistic_of_cpp():
    assert members("Stats") == set(plain_buffer(10).stats())


def test_the_counters_are_those_of_cpp():
    counters = re.search(r"kCounters\[\] = {(.*?)\n};", read("src/metrics/gathered.cpp"), re.S)
    assert set(re.findall(r"Stats::(\w+)", counters[1])) == set(metrics._COUNTERS)
