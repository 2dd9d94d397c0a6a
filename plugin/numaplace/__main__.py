"""``python -m numaplace`` is the ``numaplace`` command."""

import sys

from numaplace.cli.main import main

sys.exit(main())
