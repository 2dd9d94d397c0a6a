from __future__ import annotations

import os

# These render with helm, which `make chart` builds; `make test` needs nothing but Python.
collect_ignore_glob = [] if os.environ.get("NUMAPLACE_HELM") else ["test_chart_render*.py"]
