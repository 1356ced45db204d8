"""Stubs, signatures and documentation."""

import ast
import dataclasses
import inspect
import pydoc
from pathlib import Path

import pytest

import reprise

STUB = ast.parse((Path(reprise.__file__).parent / "__init__.pyi").read_text())
CLASSES = {node.name: node for node in STUB.body if isinstance(node, ast.ClassDef)}
# Of these inspect sees what their bases make of calls.
INHERITED = {"Closed", "NothingToDraw", "CheckpointError", "Role", "End"}


def parameters(function, is_method):
    arguments = function.args
    names = [a.arg for a in arguments.posonlyargs + arguments.args]
    names = names[1:] if is_method else names
    names += ["*" + arguments.vararg.arg] if arguments.vararg else []
    names += [a.arg for a in arguments.kwonlyargs]
    names += ["**" + arguments.kwarg.arg] if arguments.kwarg else []
    return names


def shown(value):
    marks = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    names = [marks.get(p.kind, "") + p.name for p in inspect.signature(value).parameters.values()]
    return names[1:] if names[:1] == ["self"] else names


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
    """Of an enum, as newer type checkers know them: those that are assigned."""
    return {
        item.targets[0].id: ast.literal_eval(item.value)
        for item in node.body
        if isinstance(item, ast.Assign)
    }


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
            assert all(target.id.startswith("_") for target in node.targets)


def test_every_public_name_is_in_the_stub():
    declared = {node.name for node in STUB.body if hasattr(node, "name")}
    assert set(reprise.__all__) <= declared
    for name in CLASSES:
        # What bases bring, such as tuple's count, is not declared again.
        own = vars(getattr(reprise, name))
        methods = {item.name for item in CLASSES[name].body if isinstance(item, ast.FunctionDef)}
        fields = {item.target.id for item in CLASSES[name].body if isinstance(item, ast.AnnAssign)}
        public = {n for n in own if not n.startswith("_")}
        assert public - methods - fields - set(members(CLASSES[name])) == set(), name


@pytest.mark.parametrize(
    "name, method", [pytest.param(n, m, id=f"{n}.{m.name}") for n, m in stub_methods()]
)
def test_parameters_are_those_of_the_stub(name, method):
    decorators = {getattr(d, "id", "") for d in method.decorator_list}
    value = inspect.getattr_static(getattr(reprise, name), method.name)
    if "property" in decorators:
        assert not callable(value)
        assert len(value.__doc__) > 10
        return
    if method.name in ("__enter__", "__exit__", "__iter__", "__len__", "__contains__"):
        return  # Called by the language.
    if method.name == "__next__" or (method.name == "__init__" and name == "Schema"):
        return
    bound = getattr(getattr(reprise, name), method.name)
    expected = parameters(method, "staticmethod" not in decorators)
    assert shown(bound) == expected
    assert bound.__doc__ or method.name == "__init__"


@pytest.mark.parametrize("name", sorted(reprise.__all__))
def test_help_is_worth_reading(name):
    value = getattr(reprise, name)
    assert value.__module__ == "reprise"
    assert len(inspect.getdoc(value)) > 40
    text = pydoc.render_doc(value)
    assert "reprise" in text and "$self" not in text and "--\n\n" not in text


def test_the_example_of_the_package_runs():
    lines = reprise.__doc__.split("    import numpy as np\n")[1].split("\nThreads:")[0]
    exec("import numpy as np\n" + inspect.cleandoc("    " + lines.lstrip()), {})


def test_version():
    assert reprise.__version__.count(".") == 2
