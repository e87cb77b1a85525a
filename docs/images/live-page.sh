#!/usr/bin/env bash
# Takes docs/images/live-page.png: the live page of a real `headrace demo`, half a minute into it.
# Needs Go and Chromium (CHROMIUM=/path/to/it where it has another name).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
dir=$(mktemp -d)
demo=
trap 'if [ -n "$demo" ]; then kill "$demo" 2>/dev/null || true; wait "$demo" 2>/dev/null || true; fi; rm -rf "$dir"' EXIT

go build -o "$dir/headrace" ./cmd/headrace
"$dir/headrace" demo >"$dir/story" &
demo=$!
sleep "${AFTER:-32}"
url=$(sed -n 's/^watch it at //p' "$dir/story")
"${CHROMIUM:-chromium}" --headless --no-sandbox --disable-gpu --hide-scrollbars --force-device-scale-factor=1 --window-size="${SIZE:-1100,1012}" \
	--user-data-dir="$dir/profile" --virtual-time-budget="${BUDGET:-3000}" --screenshot=docs/images/live-page.png "$url" 2>/dev/null
ls -l docs/images/live-page.png
