#!/bin/bash
# What the documents promise is there: links lead somewhere, the page of
# commands is what the command itself writes.
set -euo pipefail
cd "$(dirname "$0")/../.."

status=0
while IFS=: read -r page link; do
    target=${link%%#*}
    case $target in http*://* | mailto:* | "") continue ;; esac
    [ -e "$(dirname "$page")/$target" ] || { echo "$page: $target does not exist"; status=1; }
done < <(grep -oE '\]\([^) ]+\)' ./*.md docs/*.md | sed -E 's/\]\((.*)\)$/\1/')

weir=${WEIR_BIN:-build/weir}
if [ -x "$weir" ]; then
    diff -u docs/commands.md <("$weir" help --format markdown) || { echo "run: make docs"; status=1; }
fi
exit $status
