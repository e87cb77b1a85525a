#!/usr/bin/env bash
# Runs the example over a few hundred files that this machine has, among them one that crashes the worker and one that
# does not exist, and checks from the outside what came of each. Needs Linux, Go, python3 and sha256sum; about half a
# minute; leaves nothing behind. HEADRACE=/path/to/headrace uses that binary instead of building one.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

files=240
dir=$(mktemp -d)
up=
passed=0 failed=0

finish() {
	if [ -n "$up" ]; then kill -KILL "$up" 2>/dev/null || true; fi
	rm -rf "$dir"
}
trap finish EXIT

check() { # what, then a command that says whether it holds
	local what=$1
	shift
	if "$@"; then
		passed=$((passed + 1)) && printf 'ok     %s\n' "$what"
	else
		failed=$((failed + 1)) && printf 'FAILED %s\n' "$what"
	fi
}

# Whatever descends from `headrace up` has this in its environment, wherever it moved.
export HEADRACE_EXAMPLE_RUN=$dir
left_behind() {
	local environ pid
	for environ in /proc/[0-9]*/environ; do
		pid=${environ//[^0-9]/}
		if [ "$pid" != $$ ] && grep -qzxF "HEADRACE_EXAMPLE_RUN=$dir" "$environ" 2>/dev/null &&
			[ "$(readlink "/proc/$pid/exe")" != "$(readlink /proc/$$/exe)" ]; then
			echo "$pid"
		fi
	done
}

headrace=${HEADRACE:-$dir/headrace}
if [ -z "${HEADRACE:-}" ]; then
	(cd ../.. && CGO_ENABLED=0 go build -trimpath -o "$dir/headrace" ./cmd/headrace)
fi

# The documents: licences and package notes first, then sources of Python and Go, and a few binaries.
places=(/usr/share/common-licenses /usr/share/doc /usr/include /etc/ssl/certs
	"$(python3 -c 'import json, os; print(os.path.dirname(json.__file__))')" "$(go env GOROOT)/src/encoding" "$(go env GOROOT)/src/image")
existing=()
for p in "${places[@]}"; do
	if [ -d "$p" ]; then existing+=("$p"); fi
done
# One line with a run of blanks that does not end it: the worker's pattern takes hours over it (README.md).
{ printf 'Total'; head -c 400000 /dev/zero | tr '\0' ' '; printf '|\n'; } >"$dir/aligned.txt"
missing=$dir/no-such-file.txt
{
	python3 enqueue.py "$dir/aligned.txt" "$missing"
	for p in "${existing[@]}"; do
		python3 enqueue.py --limit 100 "$p" 2>/dev/null
	done
} | awk "NR <= $files + 2" >"$dir/jobs.ndjson"

# A free port and a directory of its own; all else is the file of the example.
HEADRACE_LISTEN=127.0.0.1:0 HEADRACE_DATA_DIR=$dir/data "$headrace" up --config headrace.yaml 2>"$dir/log" &
up=$!
for _ in $(seq 100); do
	server=$(sed -n 's/^headrace is up: //p' "$dir/log")
	if [ -n "$server" ]; then break; fi
	sleep 0.1
done
check "headrace up answers at ${server:-nothing}" [ -n "$server" ]

all=$(wc -l <"$dir/jobs.ndjson")
enqueue() { "$headrace" jobs enqueue --server "$server" --file "$dir/jobs.ndjson" 2>&1; }
said=$(enqueue) || true
check "$said" [ "$said" = "$all jobs enqueued" ]
said=$(enqueue) || true
check "the same again: $said" [ "$said" = "0 jobs enqueued, $all already known by their key" ]

set +e
python3 check.py "$server" "$dir/jobs.ndjson" --poison "$dir/aligned.txt" --missing "$missing" | tee "$dir/checks"
found=${PIPESTATUS[0]}
set -e
passed=$((passed + $(grep -c '^ok ' "$dir/checks" || true)))
failed=$((failed + $(grep -c '^FAILED ' "$dir/checks" || true)))
check "check.py ran to its end" [ "$found" = "$(grep -c '^FAILED ' "$dir/checks" || true)" ]

kill -TERM "$up" 2>/dev/null || true # it may have died already: its status says how
status=0
wait "$up" || status=$?
up=
check "SIGTERM ends it with status 0" [ "$status" = 0 ]
rest=$(left_behind)
check "no process is left" [ -z "$rest" ]

if [ "$failed" -gt 0 ]; then tail -n 20 "$dir/log" >&2; fi
printf '\n%d passed, %d failed\n' "$passed" "$failed"
[ "$failed" = 0 ]
