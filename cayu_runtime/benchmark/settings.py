"""The settings of the project that is measured, and beside them the measured agents and their model.

The project's own module is named by the environment, because the runtime knows no project.
"""

from __future__ import annotations

import os
from importlib import import_module

_project = import_module(os.environ["CAYU_BENCH_SETTINGS"])
globals().update({name: getattr(_project, name) for name in dir(_project) if name.isupper()})

INSTALLED_APPS = [*_project.INSTALLED_APPS, "cayu_runtime.benchmark"]
CAYU_PROVIDERS = {**_project.CAYU_PROVIDERS, "bench": "cayu_runtime.benchmark.script.model_named"}
