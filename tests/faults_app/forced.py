"""Settings of a deployment with queue settings that the checks refuse; forced, if the checks are silenced (B12)."""

from __future__ import annotations

import json
import os

from cayu_project.settings import *  # noqa: F403

Q_CLUSTER = {**Q_CLUSTER, **json.loads(os.environ["CAYU_FAULTS_QUEUE"])}  # noqa: F405
SILENCED_SYSTEM_CHECKS = os.environ.get("CAYU_FAULTS_SILENCED", "").split()
