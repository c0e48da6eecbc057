"""The core is pure: a scan of its source for imports, environment, global randomness, files and clocks."""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import range_reader_core

FILES = sorted(Path(range_reader_core.__file__).parent.glob("**/*.py"))
ALLOWED_IN = {"msgspec": "ohh", "safetensors": "checkpoint"}  # the stem of the file begins with this
TOUCHES_FILES = {"checkpoint", "reads", "training", "train_state"}
HAS_CLOCK = {"training"}
FILE_CALLS = {
    "open",
    "read_text",
    "read_bytes",
    "write_text",
    "write_bytes",
    "mkdir",
    "unlink",
    "rename",
    "iterdir",
    "glob",
    "rglob",
}
SEEDED = {"rand", "randn", "randint", "randperm", "rand_like", "randn_like", "bernoulli", "multinomial", "normal"}
GENERATORS = {"Generator", "default_rng", "SeedSequence", "PCG64", "Philox"}


def test_the_scan_sees_the_core() -> None:
    """A scan of nothing passes everything."""
    assert {"cards", "tokens", "hand", "encoder", "masks", "reads"} <= {path.stem for path in FILES}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_core_file_is_pure(path: Path) -> None:
    """The core runs with numpy and torch alone on a GPU box, and nothing hidden changes its results."""
    tree = ast.parse(path.read_text(encoding="utf-8"), filename=str(path))
    assert sorted(violations(tree, path.stem)) == []


@pytest.mark.parametrize(
    ("source", "stem"),
    [
        ("import dagster", "training"),
        ("def f():\n    import polars", "reads"),
        ("from . import cards", "hand"),
        ("import range_reader_pipeline.paths", "training"),
        ("import msgspec", "encoder"),
        ("import safetensors.torch", "training"),
        ("import os\nos.environ['A']", "training"),
        ("import os\nos.getenv('A')", "training"),
        ("from os import environ", "training"),
        ("import random", "training"),
        ("import socket", "training"),
        ("import numpy as np\nnp.random.shuffle([])", "batching"),
        ("import numpy as np\nnp.random.seed(0)", "batching"),
        ("import torch\nwith torch.random.fork_rng():\n    pass\ntorch.manual_seed(0)", "learner"),
        ("import torch\ntorch.randperm(3)", "batching"),
        ("import time", "masks"),
        ("from datetime import datetime", "metrics"),
        ("open('a')", "metrics"),
        ("path.write_text('a')", "evaluation"),
    ],
)
def test_the_scan_finds_what_it_forbids(source: str, stem: str) -> None:
    """A scan that cannot fail proves nothing."""
    assert list(violations(ast.parse(source), stem))


def test_the_global_generator_may_be_seeded_where_it_is_put_back() -> None:
    """Dropout draws from it and takes no other."""
    source = "import torch\nwith torch.random.fork_rng():\n    torch.manual_seed(0)"
    assert list(violations(ast.parse(source), "learner")) == []


def violations(tree: ast.Module, stem: str) -> Iterator[str]:
    """Yield what a core file of this stem must not contain."""
    # Dropout takes no generator: the global one may be seeded where it is put back afterwards.
    forks = [node for node in ast.walk(tree) if isinstance(node, ast.With) and "fork_rng" in ast.unparse(node.items[0])]
    forked = {node for fork in forks for node in ast.walk(fork)}
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                for name in names:
                    yield from _import_violations(name.name, stem, node.lineno)
            case ast.ImportFrom(module=module, level=level, names=names):
                if level or module is None:
                    yield f"line {node.lineno}: relative import"
                else:
                    yield from _import_violations(module, stem, node.lineno)
                    if module == "os" and {name.name for name in names} & {"environ", "getenv"}:
                        yield f"line {node.lineno}: reads the environment"
            case ast.Attribute(value=ast.Name(id="os"), attr="environ" | "getenv"):
                yield f"line {node.lineno}: reads the environment"
            case ast.Attribute(value=ast.Attribute(value=ast.Name(id="np" | "numpy"), attr="random"), attr=attr):
                if attr not in GENERATORS:
                    yield f"line {node.lineno}: np.random.{attr} is global state"
            case ast.Call(func=ast.Attribute(value=ast.Name(id="torch"), attr=attr), keywords=keywords):
                if attr in SEEDED and "generator" not in {keyword.arg for keyword in keywords}:
                    yield f"line {node.lineno}: torch.{attr} without a generator"
                if attr in {"manual_seed", "seed"} and node not in forked:
                    yield f"line {node.lineno}: torch.{attr} is global state"
            case _:
                pass
        if isinstance(node, ast.Call) and stem not in TOUCHES_FILES:
            called = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
            if called in FILE_CALLS:
                yield f"line {node.lineno}: {called}() touches files"


def _import_violations(module: str, stem: str, line: int) -> Iterator[str]:
    package = module.partition(".")[0]
    if package in {"random", "socket", "urllib", "http", "subprocess", "pickle"}:
        yield f"line {line}: import {module}"
    elif package in {"time", "datetime"}:
        if stem not in HAS_CLOCK:
            yield f"line {line}: import {module}, but clocks belong in {sorted(HAS_CLOCK)}"
    elif package in ALLOWED_IN:
        if not stem.startswith(ALLOWED_IN[package]):
            yield f"line {line}: import {module}, allowed in {ALLOWED_IN[package]}*.py only"
    elif package not in sys.stdlib_module_names and package not in {"numpy", "torch", "range_reader_core"}:
        yield f"line {line}: import {module}, which the core does without"
