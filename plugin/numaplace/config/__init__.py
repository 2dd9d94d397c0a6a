"""The daemon's configuration: file, environment and flags into one frozen record.

``load_config`` is the way in; the records are in ``schema``, and everything else (flags, environment
variables, messages, the documentation's completeness test) is derived from them.
"""

from numaplace.config.load import Loaded, load_config
from numaplace.config.schema import Config, ResourceConfig
from numaplace.config.settings import Setting, setting_names, settings

__all__ = ["Config", "Loaded", "ResourceConfig", "Setting", "load_config", "setting_names", "settings"]
