#!/usr/bin/env python3
"""Wait until every job of a file of jobs has ended, then compare what the API says with the files themselves.

    python3 check.py http://127.0.0.1:8480 jobs.ndjson --poison /the/file/that/crashes --missing /no/such/file

Prints one line a check and exits with the number of those that failed. Used by run.sh.
"""

import argparse
import collections
import json
import subprocess
import sys
import time
import urllib.parse
import urllib.request

STATES = ["ready", "delayed", "leased", "succeeded", "dead", "cancelled", "expired"]
failed = 0


def check(ok, what, detail=""):
    global failed
    failed += not ok
    print("ok     " + what if ok else f"FAILED {what}: {detail}", flush=True)


def get(server, path, **query):
    query = {k: v for k, v in query.items() if v}
    with urllib.request.urlopen(f"{server}/api/v1{path}?{urllib.parse.urlencode(query)}", timeout=30) as r:
        return json.load(r)


def ids(server, state):
    token = ""
    while True:
        page = get(server, "/jobs", pool="documents", state=state, page_size=200, page_token=token)
        yield from (job["id"] for job in page["items"])
        token = page.get("next_page_token")
        if not token:
            return


def wait(server, limit):
    """Wait until no job waits or runs; return how many seconds that took, or None when the time was up."""
    began = time.monotonic()
    while time.monotonic() - began < limit:
        # In the order of a job's life, so that one that moves on while we look is seen.
        if not any(get(server, "/jobs", pool="documents", state=s, page_size=1)["items"] for s in
                   ("leased", "delayed", "ready", "leased")):
            return time.monotonic() - began
        time.sleep(0.2)
    return None


def sha256sums(paths):
    """Ask sha256sum, not the library that the worker used. It prints one line a file, in order."""
    out = subprocess.run(["sha256sum", "-z", "--", *paths], check=True, capture_output=True).stdout
    return {line[66:].decode(): line[:64].decode() for line in out.split(b"\0") if line}


def main():
    p = argparse.ArgumentParser()
    p.add_argument("server")
    p.add_argument("jobs")
    p.add_argument("--poison", required=True)
    p.add_argument("--missing", required=True)
    p.add_argument("--within", type=float, default=150)
    a = p.parse_args()
    with open(a.jobs, encoding="utf-8") as f:
        asked = [json.loads(line)["payload"]["path"] for line in f]
    good = sorted(set(asked) - {a.poison, a.missing})

    took = wait(a.server, a.within)
    by_state = {s: list(ids(a.server, s)) for s in STATES}
    counts = {s: len(found) for s, found in by_state.items() if found}
    check(took is not None, f"every job ended ({took or 0:.1f} s)", f"after {a.within} s there are {counts}")
    check(sum(counts.values()) == len(asked), f"there are as many jobs as were enqueued ({len(asked)})", f"{counts}")

    done = [get(a.server, "/jobs/" + i) for i in by_state["succeeded"]]
    results = collections.Counter(job["result"]["path"] for job in done)
    wrong = [path for path in good if results[path] != 1] + [path for path in results if path not in good]
    check(not wrong, f"every file has exactly one result ({len(good)})", wrong[:5])

    twice = [job["payload"]["path"] for job in done if job["attempts"] != 1]
    check(not twice, "every file was read once", twice[:5])

    strayed = [job["id"] for job in done if job["payload"]["path"] != job["result"]["path"]]
    check(not strayed, "every result belongs to its job", strayed[:5])

    sums = sha256sums(good)
    wrong = [job["result"]["path"] for job in done if job["result"]["sha256"] != sums.get(job["result"]["path"])]
    check(not wrong and len(sums) == len(good), "every SHA-256 is what sha256sum says", wrong[:5])

    kinds = collections.Counter(job["result"]["kind"] for job in done)
    check(kinds["text"] > 0, f"there was something to read: {kinds['text']} texts, {kinds['binary']} binaries", kinds)

    dead = {job["payload"]["path"]: job for job in (get(a.server, "/jobs/" + i) for i in by_state["dead"])}
    check(sorted(dead) == sorted([a.poison, a.missing]), "two jobs are dead: the one that crashes, the one without a file", sorted(dead))

    poison, missing = dead.get(a.poison, {}), dead.get(a.missing, {})
    check(poison.get("dead_reason") == "poison" and poison["crashes"] == 2, f"the first as poison: {poison.get('error')}", poison)
    check(missing.get("dead_reason") == "rejected" and missing["attempts"] == 1, f"the second as rejected: {missing.get('error')}", missing)
    sys.exit(failed)


if __name__ == "__main__":
    main()
