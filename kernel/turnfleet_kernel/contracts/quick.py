"""Frozen values that are quick to make: a run makes dozens."""

import dataclasses
from typing import Any, TypeVar

__all__ = ["quick_init"]

ClassT = TypeVar("ClassT", bound=type)


def quick_init(cls: ClassT) -> ClassT:
    """Give a frozen, slotted dataclass a constructor that fills the slots through their descriptors.

    The constructor of a frozen dataclass sets each field by name through ``object.__setattr__``, at about twice the
    cost. Parameters, defaults and everything else stay as ``dataclass`` made them.
    """
    parameters, lines, names = ["self"], [], dict[str, Any]()
    for field in dataclasses.fields(cls):
        assert field.init, field.name
        assert field.default_factory is dataclasses.MISSING, field.name
        names[f"_set_{field.name}"] = cls.__dict__[field.name].__set__
        names[f"_default_{field.name}"] = field.default
        default = "" if field.default is dataclasses.MISSING else f"=_default_{field.name}"
        parameters.append(f"{field.name}{default}")
        lines.append(f"  _set_{field.name}(self, {field.name})")
    source = f"def __init__({', '.join(parameters)}):\n" + "\n".join(lines)
    exec(source, names)  # noqa: S102 - as dataclass itself does; the text holds field names and nothing else
    made = names["__init__"]
    made.__annotations__ = cls.__init__.__annotations__  # type: ignore[misc]
    made.__qualname__ = f"{cls.__qualname__}.__init__"
    made.__module__ = cls.__module__
    cls.__init__ = made  # type: ignore[misc]
    return cls
