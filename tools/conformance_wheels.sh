#!/usr/bin/env bash
# Runs torch's operator database against built wheels, on a machine that has another torch and no network.
#
#   make wheels && .venv/bin/python -m pip download --no-deps -d dist expecttest                here: wheels, into dist/
#   OUT=results bash tools/conformance_wheels.sh dist --workers 16 --budget-seconds 480         there
#
# All further arguments are those of `python -m tools.conformance`. Results (not the caches) and the page go to $OUT, also
# when the run is cut short; $RESUME may name a folder of earlier results, with which the run goes on. Interpreter:
# $PYTHON, or python3. Verdicts of that torch become part of the repository as tools/conformance/verdicts/torch-X.Y.Z.jsonl.
set -euo pipefail
cd "$(dirname "$0")/.."
wheels=$1
shift
python=${PYTHON:-python3}
results=${OUT:-out/conformance-wheels}
scratch=$(mktemp -d)
keep() {
    mkdir -p "$results"
    cp "$scratch"/run/*.jsonl "$scratch"/run/*.md "$results" 2> /dev/null || true
    rm -rf "$scratch"
}
trap keep EXIT
mkdir "$scratch/run"
[[ -z ${RESUME:-} ]] || cp "$RESUME"/*.jsonl "$scratch/run"
"$python" -m pip install --quiet --no-index --no-deps --no-compile --no-cache-dir --target "$scratch/site" "$wheels"/*.whl
export PYTHONPATH="$scratch/site${PYTHONPATH:+:$PYTHONPATH}"
"$python" -m tools.conformance --out "$scratch/run" --page "$scratch/run/conformance.md" "$@"
