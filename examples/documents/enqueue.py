#!/usr/bin/env python3
"""Write a job for each file below the given directories (or for each given file) to standard output, one a line.

    python3 enqueue.py /usr/share/doc | headrace jobs enqueue --file -

The key holds the time of the last change: enqueueing a directory twice adds only what changed in between.
"""

import argparse
import json
import os
import stat
import sys


def files(roots, most_bytes):
    for root in roots:
        if not os.path.isdir(root):
            yield root
            continue
        for directory, below, names in os.walk(root):
            below.sort()
            for name in sorted(names):
                path = os.path.join(directory, name)
                info = os.lstat(path)
                if stat.S_ISREG(info.st_mode) and info.st_size <= most_bytes and os.access(path, os.R_OK):
                    yield path


def job(pool, path):
    path = os.path.abspath(path)
    try:
        changed = os.stat(path).st_mtime_ns
    except OSError:
        changed = 0  # the worker will say what is wrong with it
    return {"pool": pool, "key": f"{changed} {path}"[:512], "payload": {"path": path}}


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("paths", nargs="+")
    p.add_argument("--pool", default="documents")
    p.add_argument("--max-bytes", type=int, default=1 << 20, help="leave larger files of directories out")
    p.add_argument("--limit", type=int, default=10_000, help="at most so many jobs")
    a = p.parse_args()
    for n, path in enumerate(files(a.paths, a.max_bytes)):
        if n == a.limit:
            print(f"enqueue.py: stopped after {n} files (--limit)", file=sys.stderr)
            break
        try:
            path.encode("utf-8")
        except UnicodeEncodeError:
            print(f"enqueue.py: left out {path!r}: its name is not UTF-8", file=sys.stderr)
            continue
        json.dump(job(a.pool, path), sys.stdout)
        sys.stdout.write("\n")


if __name__ == "__main__":
    main()
