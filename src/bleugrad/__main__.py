"""``python -m bleugrad``."""

import sys

from bleugrad.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
