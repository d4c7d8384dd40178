"""The agent is one directory that runs where nothing else of ours is."""

import ast
import sys
from pathlib import Path

import pytest

import images.agent

FILES = sorted(Path(images.agent.__file__).parent.rglob("*.py"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.name))
def test_it_imports_itself_and_the_standard_library(file: Path) -> None:
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            names = [str(node.module)]
        else:
            continue
        assert {name.split(".")[0] for name in names} <= sys.stdlib_module_names
