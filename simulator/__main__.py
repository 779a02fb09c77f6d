"""`python -m simulator`: what `dispatch simulate` runs."""

import sys

from simulator.command import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
