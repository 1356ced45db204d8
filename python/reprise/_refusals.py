"""What is wrong with the arguments of calls of the C++ part, in words."""

import inspect
from typing import Any, Callable, Dict, Optional, Tuple


def _misfit(
    parameters: "list[inspect.Parameter]", arguments: Tuple[Any, ...], keywords: Dict[str, Any]
) -> Optional[str]:
    names = [p.name for p in parameters if p.name != "self"]
    positional = [p.name for p in parameters if p.kind is not inspect.Parameter.KEYWORD_ONLY]
    if len(arguments) > len(positional):
        is_method = "self" in positional
        return (
            f" takes {len(positional) - is_method} positional arguments; given "
            f"{len(arguments) - is_method}"
            + (": name the others" if len(parameters) > len(positional) else "")
        )
    given = positional[: len(arguments)]
    for keyword in keywords:
        if keyword not in names:
            return f": unexpected keyword {keyword!r}; allowed: {', '.join(names) or 'none'}"
        if keyword in given:
            return f": {keyword} is given twice"
    for one in parameters:
        if one.default is one.empty and one.name not in given and one.name not in keywords:
            return f": {one.name} is missing"
    return None


def refusal(
    function: Callable[..., Any], kind: type, arguments: Tuple[Any, ...], keywords: Dict[str, Any]
) -> Optional[str]:
    """A sentence that names the call and the argument that is at fault; None if they fit the
    signature of the function, or it has none. `kind` is the class that has the function."""
    name = kind.__name__
    if function.__name__ != "__init__":
        name += "." + function.__name__
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except ValueError:
        return None
    if parameters and parameters[0].name == "self" and arguments:
        if not isinstance(arguments[0], kind):
            return f"{name}: self is {arguments[0]!r}; allowed: a {kind.__name__}"
    misfit = _misfit(parameters, arguments, keywords)
    return misfit and name + misfit
