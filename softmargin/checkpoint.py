"""Saving a run so that it can go on after the process was killed, bit for bit as if nothing had happened.

A solver's state is a dataclass of arrays, numbers, named tuples and random generators; states may hold other states.
Everything is written, with a fingerprint of the problem and the solver, which must agree on resuming.
"""

from __future__ import annotations

import dataclasses
import hashlib
import importlib
import os
from typing import Any

import numpy as np

from softmargin import __version__, archive

KIND, SCHEMA = "checkpoint", 1


def fingerprint(problem: Any, solver: Any) -> str:
    """A digest of everything that the run depends on, but the threads and how far it is to go."""
    digest = hashlib.blake2b(digest_size=16)
    *arrays, about = problem.marks()
    for array in arrays:
        digest.update(np.ascontiguousarray(array).data)
    options = {f.name: getattr(solver, f.name) for f in dataclasses.fields(solver) if f.name != "gap"}
    digest.update(repr((__version__, about, type(solver).__name__, options)).encode())
    return digest.hexdigest()


def save(path: str | os.PathLike[str], run: Any, mark: str) -> None:
    """Write the run to a file."""
    arrays: dict[str, Any] = {}
    archive.write(path, KIND, SCHEMA, {"fingerprint": mark, "run": _flatten(run, "run", arrays)}, arrays)


def load(path: str | os.PathLike[str], mark: str, kind: type[Any]) -> Any:
    """The run as it was saved, which is of the given type."""
    about, arrays = archive.read(path, KIND, SCHEMA)
    if about.get("fingerprint") != mark:
        raise ValueError(
            f"{path} is the checkpoint of another run (other data, parameters, solver or release): "
            "pass another checkpoint path, or delete it to start anew; the file was left as it is"
        )
    try:
        run = _restore(about["run"], arrays)
    except (KeyError, TypeError, ValueError, AttributeError, ImportError) as error:
        raise ValueError(f"{path} is damaged or of another release ({error}); the file was left as it is") from error
    if not isinstance(run, kind):
        raise ValueError(f"{path} holds no run but {type(run).__name__}; the file was left as it is")
    return run


def _flatten(value: Any, name: str, arrays: dict[str, Any]) -> Any:
    if isinstance(value, np.ndarray):
        arrays[name] = value
        return {"array": name}
    if isinstance(value, np.random.Generator):
        return {"generator": value.bit_generator.state}
    if dataclasses.is_dataclass(value) or hasattr(value, "_fields"):
        names = value._fields if hasattr(value, "_fields") else [f.name for f in dataclasses.fields(value)]
        fields = {field: _flatten(getattr(value, field), f"{name}.{field}", arrays) for field in names}
        return {"type": f"{type(value).__module__}:{type(value).__qualname__}", "fields": fields}
    if isinstance(value, list):
        return [_flatten(item, f"{name}.{k}", arrays) for k, item in enumerate(value)]
    return value.item() if isinstance(value, np.generic) else value


def _restore(value: Any, arrays: dict[str, Any]) -> Any:
    if isinstance(value, list):
        return [_restore(item, arrays) for item in value]
    if not isinstance(value, dict):
        return value
    if "array" in value:
        return arrays[value["array"]]
    if "generator" in value:
        rng = np.random.default_rng()
        rng.bit_generator.state = value["generator"]
        return rng
    module, name = value["type"].split(":")
    kind = getattr(importlib.import_module(module), name) if module.startswith("softmargin.") else None
    if not isinstance(kind, type) or not (dataclasses.is_dataclass(kind) or hasattr(kind, "_fields")):
        raise ValueError(f"a checkpoint must not name {value['type']!r}")
    return kind(**{field: _restore(item, arrays) for field, item in value["fields"].items()})
