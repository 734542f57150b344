"""`python -m memc`: the command."""

import sys

from memc._cli import main

sys.exit(main())
