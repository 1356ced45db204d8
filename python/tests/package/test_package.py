"""Checks that stubs, signatures and documentation agree."""

import ast
import dataclasses
import inspect
import pydoc
import re
import shutil
import subprocess
import sys
import typing
from pathlib import Path

import numpy as np
import pytest
from testing.files import ROOT

import reprise
from reprise import _options, _vocabulary

STUB = ast.parse((Path(reprise.__file__).parent / "__init__.pyi").read_text())
CLASSES = {node.name: node for node in STUB.body if isinstance(node, ast.ClassDef)}
# Classes for which `inspect` shows the signature of a base class.
INHERITED = {"Closed", "NothingToDraw", "CheckpointError", "Role", "End"}


WITH_INITIAL = [
    kind
    for kind in _options.families["selectors"]
    if "initial" in {field.name for field in dataclasses.fields(kind)}
]

NAMES = {"End": reprise.End}  # Names that occur in defaults of the stub.


def parameters(function, is_method):
    """Returns each parameter of a function in the stub: its name with stars, whether it is
    keyword-only, and its default."""
    arguments = function.args
    named = arguments.posonlyargs + arguments.args
    defaults = [None] * (len(named) - len(arguments.defaults)) + arguments.defaults
    found = [(a.arg, False, default) for a, default in zip(named, defaults)][is_method:]
    found += [("*" + arguments.vararg.arg, False, None)] if arguments.vararg else []
    found += [(a.arg, True, d) for a, d in zip(arguments.kwonlyargs, arguments.kw_defaults)]
    found += [("**" + arguments.kwarg.arg, False, None)] if arguments.kwarg else []
    return [
        (name, by_keyword, inspect.Parameter.empty if d is None else eval(ast.unparse(d), NAMES))
        for name, by_keyword, d in found
    ]


def shown(value):
    """Returns the parameters that `inspect` shows, in the form of `parameters`."""
    marks = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    return [
        (marks.get(p.kind, "") + p.name, p.kind is inspect.Parameter.KEYWORD_ONLY, p.default)
        for p in inspect.signature(value).parameters.values()
    ]


@pytest.fixture(scope="module")
def instances(tmp_path_factory):
    """An object of each class that has methods, by the name of the class."""
    schema = reprise.Schema().observation("x", np.float32).reward()
    buffer = reprise.ReplayBuffer(schema, 100, selectors=reprise.Uniform(), episode_index=True)
    writer = buffer.writer()
    writer.append_episode(x=np.zeros(11), reward=np.zeros(10))
    sampler = buffer.sampler()
    with buffer.prefetch(1) as prefetcher, buffer.share() as address:
        made = (
            buffer.share(),
            buffer.autosave(tmp_path_factory.mktemp("autosave")),
            reprise.attach(address),
            reprise.ShardConnection(address),
            schema,
            buffer,
            writer,
            buffer.vector_writer(2, autoreset="same_step"),
            sampler,
            sampler.sample(1),
            buffer.hindsight("x"),
            reprise.mix([buffer], 1),
            buffer.selector(),
            buffer.episodes(),
        )
        remote = (
            reprise.StepPacker(schema),
            reprise.ReplayShard(buffer),
            reprise.ShardClient(schema, 1),
            reprise.ShardedLimiter(reprise.MinSize(1), 10),
        )
        every = (*made, prefetcher, reprise.SegmentTree(4), *remote)
        yield {type(one).__name__: one for one in every}


def stub_methods():
    for name, node in CLASSES.items():
        for item in node.body:
            if isinstance(item, ast.FunctionDef) and name not in INHERITED:
                yield name, item


def dataclass_fields(node):
    return [
        (item.target.id, item.value and ast.literal_eval(item.value))
        for item in node.body
        if isinstance(item, ast.AnnAssign)
    ]


def members(node):
    """Returns the members of an enum in the stub, and their values."""
    return {
        item.targets[0].id: ast.literal_eval(item.value)
        for item in node.body
        if isinstance(item, ast.Assign)
    }


MAKE_STUB = ROOT / "python" / "make_stub"


def test_the_stub_is_up_to_date():
    ended = subprocess.run([sys.executable, MAKE_STUB, "--check"], capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr


@pytest.mark.parametrize(
    "words, call",
    [
        (_vocabulary.Normalise, lambda buffer, word: buffer.sampler().sample(1, normalise=word)),
        (_vocabulary.Draws, lambda buffer, word: buffer.sampler().sample(1, draws=word)),
        (_vocabulary.Autoreset, lambda buffer, word: buffer.vector_writer(1, autoreset=word)),
        (_vocabulary.Goal, lambda buffer, word: buffer.hindsight("x", goal=word)),
    ],
)
def test_words_of_parameters_in_the_stub_are_the_allowed_ones(words, call, instances):
    with pytest.raises(ValueError, match="; allowed: ") as refused:
        call(instances["ReplayBuffer"], "no such word")
    allowed = str(refused.value).split("; allowed: ")[1]
    assert allowed == ", ".join(map(repr, typing.get_args(words)))
    for word in typing.get_args(words):
        call(instances["ReplayBuffer"], word)


@pytest.mark.parametrize(
    "name, option, of",
    [
        ("Transitions", "stack_start", "window"),
        ("Sequences", "stack_start", "window"),
        ("Sequences", "end", "window"),
        *[(kind.__name__, "initial", "selectors") for kind in WITH_INITIAL],
    ],
)
def test_words_of_options_in_the_stub_are_the_allowed_ones(name, option, of):
    wrong = getattr(reprise, name)(**{option: "no such word"})
    with pytest.raises(
        ValueError, match=f"{name}.{option} is 'no such word'; allowed: "
    ) as refused:
        reprise.ReplayBuffer(reprise.Schema().observation("x", "f4"), 100, **{of: wrong})
    words, number, _ = str(refused.value).split("; allowed: ")[1].partition(", or a number")
    types = {item.target.id: ast.unparse(item.annotation) for item in CLASSES[name].body}
    assert types[option] == f"Literal[{words}]" + (" | float" if number else "")


def test_parameters_that_take_words_are_not_of_type_str():
    text = ast.unparse(STUB)
    for parameter in ("normalise", "draws", "autoreset", "goal", "initial", "end", "stack_start"):
        assert re.search(rf"\b{parameter}: (_[A-Z]|Literal\[)", text), parameter
        assert not re.search(rf"\b{parameter}: str\b", text), parameter


def test_every_name_of_the_stub_exists():
    for node in STUB.body:
        if isinstance(node, ast.ClassDef):
            assert inspect.isclass(getattr(reprise, node.name)), node.name
            if dataclasses.is_dataclass(getattr(reprise, node.name)):
                assert dataclass_fields(node) == [
                    (f.name, None if f.default is dataclasses.MISSING else f.default)
                    for f in dataclasses.fields(getattr(reprise, node.name))
                ]
            for item in node.body:
                if isinstance(item, ast.FunctionDef):
                    assert hasattr(getattr(reprise, node.name), item.name), item.name
            if node.name in ("Role", "End"):
                assert members(node) == {m.name: m.value for m in getattr(reprise, node.name)}
        elif isinstance(node, ast.FunctionDef):
            assert shown(getattr(reprise, node.name)) == parameters(node, False)
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                assert target.id.startswith("_") or hasattr(reprise, target.id)


def test_every_public_name_is_in_the_stub():
    declared = {node.name for node in STUB.body if hasattr(node, "name")}
    declared |= {
        alias.name for node in STUB.body if isinstance(node, ast.ImportFrom) for alias in node.names
    }
    declared |= {
        target.id for node in STUB.body if isinstance(node, ast.Assign) for target in node.targets
    }
    assert set(reprise.__all__) <= declared
    for name in CLASSES:
        # The stub does not repeat inherited names, such as tuple's count.
        own = vars(getattr(reprise, name))
        methods = {item.name for item in CLASSES[name].body if isinstance(item, ast.FunctionDef)}
        fields = {item.target.id for item in CLASSES[name].body if isinstance(item, ast.AnnAssign)}
        public = {n for n in own if not n.startswith("_")}
        assert public - methods - fields - set(members(CLASSES[name])) == set(), name


@pytest.mark.parametrize(
    "name, method", [pytest.param(n, m, id=f"{n}.{m.name}") for n, m in stub_methods()]
)
def test_parameters_equal_those_of_the_stub(name, method, instances):
    decorators = {getattr(d, "id", "") for d in method.decorator_list}
    value = inspect.getattr_static(getattr(reprise, name), method.name)
    if "property" in decorators:
        assert not callable(value)
        assert len(value.__doc__) > 10
        return
    if method.name.startswith("__") and method.name != "__init__":
        assert len(value.__doc__) > 10
        return  # Special methods have no useful signature.
    kind = getattr(reprise, name)
    if method.name == "__init__":
        assert shown(kind) == parameters(method, True)
        return
    bound = getattr(instances[name], method.name)
    is_static = "staticmethod" in decorators
    expected = parameters(method, not is_static)
    assert shown(bound) == expected
    unbound = shown(getattr(kind, method.name))
    assert unbound[: not is_static] == [("self", False, inspect.Parameter.empty)] * (not is_static)
    assert unbound[not is_static :] == expected
    assert bound.__doc__


@pytest.mark.parametrize("name", sorted(reprise.__all__))
def test_every_public_name_has_documentation(name):
    value = getattr(reprise, name)
    assert value.__module__ == "reprise"
    assert len(inspect.getdoc(value)) > 40
    text = pydoc.plain(pydoc.render_doc(value))
    assert "reprise" in text and "$self" not in text and "--\n\n" not in text


@pytest.mark.parametrize("kind", [reprise.ReplayBuffer, reprise.SegmentTree, reprise.Transitions])
def test_help_of_a_class_begins_with_its_constructor(kind):
    text = pydoc.plain(pydoc.render_doc(kind))
    # Newer versions of Python show each parameter in a line of its own.
    first = next(iter(inspect.signature(kind).parameters))
    assert re.search(rf"\n \|  {kind.__name__}\(\s*(\|\s*)?{first}", text)


def test_lines_of_documentation_are_short():
    for name in reprise.__all__:
        value = getattr(reprise, name)
        methods = vars(value).values() if inspect.isclass(value) else ()
        for one in (value, *methods):
            lines = (inspect.getdoc(one) or "").splitlines()
            assert [line for line in lines if len(line) > 101] == [], name


@pytest.mark.parametrize(
    "method, words",
    [
        (reprise.SegmentTree, ["capacity:", "dtype:", "float32", "float64"]),
        (reprise.SegmentTree.assign, ["leaves: integers [n]", "values: numbers [n]"]),
        (reprise.SegmentTree.assign_range, ["numbers [n]"]),
        (reprise.ReplayBuffer.restore, ["newest checkpoint", "attachments", "CheckpointError"]),
    ],
)
def test_arguments_are_described(method, words):
    text = pydoc.plain(pydoc.render_doc(method))
    assert [word for word in words if word not in text] == []
    assert "as of load" not in text and "The same" not in text


def test_the_example_of_the_package_runs():
    lines = reprise.__doc__.split("    import numpy as np\n")[1].split("\nThreads:")[0]
    exec("import numpy as np\n" + inspect.cleandoc("    " + lines.lstrip()), {})


@pytest.mark.skipif(not shutil.which("nm"), reason="binutils are not installed")
def test_the_module_exports_nothing_of_the_library():
    command = ["nm", "-D", "--defined-only", reprise._reprise.__file__]
    lines = subprocess.check_output(command, text=True).splitlines()
    assert [line.split()[-1] for line in lines] == ["PyInit__reprise"]


def test_version():
    assert reprise.__version__.count(".") == 2
