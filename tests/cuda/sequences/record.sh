#!/bin/sh
# Compiles the sequences and records them with the installed driver: build_and_record.sh HEADERS OUTPUT
# HEADERS is the folder of driver_api.h.
set -eu
here=$(dirname "$0")
program=$(mktemp -d)/sequences
cc -std=gnu11 -O1 -I"$1" "$here"/*.c -o "$program" -ldl -lpthread
"$program" --jobs 12 >"$2"
