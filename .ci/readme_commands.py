"""Prints the commands of README.md's blocks marked `<!-- ci -->`, one per line."""

import re
import sys
from pathlib import Path

text = Path(sys.argv[1]).read_text(encoding="utf-8")
blocks = re.findall(r"<!-- ci -->\n```sh\n(.*?)```", text, flags=re.DOTALL)
if len(blocks) != 2:
    sys.exit("README.md must hold exactly two marked command blocks")
sys.stdout.write("".join(blocks))
