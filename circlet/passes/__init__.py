"""Rewrites of the graph: one pass per file, named in `registry`, listed in `pipelines`."""

from circlet.passes.contract import Contract
from circlet.passes.log import PassLog, PassReport
from circlet.passes.manager import Pass, PassManager
from circlet.passes.pipelines import FILE_PIPELINES, PIPELINES, Pipeline, file_pipeline, pipeline
from circlet.passes.registry import PassTable, make, pass_names
from circlet.passes.rewriter import Rewriter

__all__ = [
    "FILE_PIPELINES",
    "PIPELINES",
    "Contract",
    "Pass",
    "PassLog",
    "PassManager",
    "PassReport",
    "PassTable",
    "Pipeline",
    "Rewriter",
    "file_pipeline",
    "make",
    "pass_names",
    "pipeline",
]
