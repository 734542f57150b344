#!/bin/sh
# Reports on models and compares them with limits: gate.sh [OPTIONS OF memc report] MODEL.onnx ...
# Prints in the form MEMC_FORMAT (default: text), appends a table of each model to the file MEMC_SUMMARY if it is
# named, and exits with the code of the last model that fails: 3 if a limit is exceeded.
set -uf
models=
count=$#
while [ "$count" -gt 0 ]; do
    word=$1
    shift
    count=$((count - 1))
    case $word in
    *.onnx) models="$models$word
" ;;
    *) set -- "$@" "$word" ;;
    esac
done
status=0
IFS='
'
for model in $models; do
    if [ -n "${MEMC_SUMMARY:-}" ]; then
        memc --quiet report "$model" "$@" --format markdown >> "$MEMC_SUMMARY" 2> /dev/null
    fi
    memc --quiet report "$model" "$@" --format "${MEMC_FORMAT:-text}" || status=$?
done
exit "$status"
