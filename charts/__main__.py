"""`python -m charts` lists the sample workloads, and `python -m charts NAME` prints one as YAML for kubectl."""

import sys
from collections.abc import Sequence

import yaml

from charts.samples import SAMPLES


def main(arguments: Sequence[str]) -> int:
    """Print what is asked for.

    Args:
        arguments: Nothing, or the name of one sample.

    Returns:
        The exit status: 0, or 2 where there is no such sample.
    """
    if not arguments:
        width = max(len(name) for name in SAMPLES)
        for name, sample in SAMPLES.items():
            print(f"{name.ljust(width)}  {sample.about}")
        return 0
    name = " ".join(arguments)
    if name not in SAMPLES:
        print(f"there is no sample {name!r}; there are {', '.join(SAMPLES)}", file=sys.stderr)
        return 2
    print(yaml.safe_dump(SAMPLES[name].manifest(name), sort_keys=False), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
