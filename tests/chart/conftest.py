from __future__ import annotations

import os

# These need tools that `make chart` builds; `make test` needs nothing but Python.
_NEEDS = {
    "test_chart_render*.py": ("NUMAPLACE_HELM",),
    "test_chart_prometheus*.py": ("NUMAPLACE_HELM", "NUMAPLACE_PROMTOOL", "NUMAPLACE_PROMQL"),
}
collect_ignore_glob = [name for name, needs in _NEEDS.items() if not all(map(os.environ.get, needs))]
