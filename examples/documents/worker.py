#!/usr/bin/env python3
"""Read one document and say what is in it.

Headrace runs this once for each job. The job, {"path": "/some/file"}, comes on standard input; the result goes to
standard output as JSON. The exit status says what becomes of the job: 0 done, 65 it can never succeed, anything else
try again later. A death by a signal counts as a crash.
"""

import codecs
import collections
import hashlib
import json
import os
import re
import resource
import stat
import sys

DEAD = 65  # EX_DATAERR: no repetition will help
MAX_BYTES = 64 << 20
CPU_SECONDS = 2  # the kernel ends a run that computes for longer

BOMS = [(codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF32_LE, "utf-32"), (codecs.BOM_UTF32_BE, "utf-32"),
        (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16")]
WORD = re.compile(r"\w+")
TRAILING = re.compile(r"\s+$")


def give_up(why):
    """End the job for good. The last lines on standard error become the job's error."""
    print(why, file=sys.stderr)
    sys.exit(DEAD)


def read(path):
    try:
        with open(path, "rb") as f:
            info = os.fstat(f.fileno())
            if not stat.S_ISREG(info.st_mode):
                give_up(f"{path}: not a regular file")
            if info.st_size > MAX_BYTES:
                give_up(f"{path}: {info.st_size} bytes, more than the {MAX_BYTES} this worker reads")
            return f.read()
    except FileNotFoundError:
        give_up(f"{path}: no such file")
    except IsADirectoryError:
        give_up(f"{path}: a directory")


def classify(data):
    """Return the kind, the reason for it, and the encoding of a text."""
    if not data:
        return "text", "empty", "utf-8"
    for bom, encoding in BOMS:
        if data.startswith(bom):
            try:
                data.decode(encoding)
                return "text", "starts with a byte order mark", encoding
            except UnicodeDecodeError:
                break
    zero = data.find(b"\0")
    if zero >= 0:
        return "binary", f"zero byte at offset {zero}", None
    try:
        data.decode("utf-8")
        return "text", "valid UTF-8", "ascii" if data.isascii() else "utf-8"
    except UnicodeDecodeError as e:
        control = sum(b < 32 and b not in b"\t\n\r\f\x1b" for b in data)
        if control * 100 > len(data):
            return "binary", f"not UTF-8 at offset {e.start}, and {control} control bytes", None
        return "text", f"not UTF-8 at offset {e.start}, but hardly a control byte", "latin-1"


def describe(path):
    data = read(path)
    kind, why, encoding = classify(data)
    out = {"path": path, "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest(), "kind": kind, "why": why}
    if kind == "text":
        text = data.decode(encoding)
        lines = text.splitlines()
        words = collections.Counter(WORD.findall(text.lower()))
        out.update(
            encoding=encoding,
            lines=len(lines),
            # Looks harmless, and is quadratic: at each blank of a run that does not end its line, the pattern scans the
            # rest of the run. See README.md.
            untidy_lines=sum(1 for line in lines if TRAILING.search(line)),
            words=sum(words.values()),
            distinct_words=len(words),
            top_words=sorted(words.items(), key=lambda w: (-w[1], w[0]))[:10],
        )
    return out


def main():
    # A document must not keep a slot busy for ever, nor leave a core file behind.
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS + 1))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    try:
        path = json.load(sys.stdin)["path"]
    except (ValueError, TypeError, KeyError) as e:
        give_up(f'payload is not {{"path": "..."}}: {e!r}')
    json.dump(describe(path), sys.stdout)


if __name__ == "__main__":
    main()
