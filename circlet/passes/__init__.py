"""Rewrites of the graph: one pass per file, named in `registry`, listed in `pipelines`."""

from circlet.passes.manager import Pass, PassLog, PassManager, PassReport
from circlet.passes.pipelines import Pipeline, native_pipeline, pipeline, works_in_place
from circlet.passes.registry import make, pass_names
from circlet.passes.rewriter import Rewriter

__all__ = [
    "Pass",
    "PassLog",
    "PassManager",
    "PassReport",
    "Pipeline",
    "Rewriter",
    "make",
    "native_pipeline",
    "pass_names",
    "pipeline",
    "works_in_place",
]
