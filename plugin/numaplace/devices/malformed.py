"""What PyYAML raises for a text that it cannot make values of."""

from __future__ import annotations

import yaml

MALFORMED_VALUE = (ValueError, LookupError, AttributeError)
"""Its constructors stumble where tag and value do not fit: ``!!bool x``, ``!!int ""``, ``!!timestamp x``."""

MALFORMED_YAML = (yaml.YAMLError, RecursionError, *MALFORMED_VALUE)
