"""``python -m bleugrad``."""

import sys

from bleugrad.lab.commands.main import main

if __name__ == "__main__":
    sys.exit(main())
