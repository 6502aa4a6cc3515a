#!/usr/bin/env bash
# Runs tests against built wheels instead of the source tree, on a machine that has torch and pytest but no network:
# another Python, another torch, a machine with a GPU.
#
#   make wheels                                     here: the wheels, into dist/
#   bash tools/test_wheels.sh dist tests/models/test_models.py -k "not minilm"      there
#
# Further wheels in the folder (packages missing there) are installed as well. Interpreter: $PYTHON, or python3.
set -euo pipefail
cd "$(dirname "$0")/.."
wheels=$1
shift
python=${PYTHON:-python3}
site=$(mktemp -d)
trap 'rm -rf "$site"' EXIT
"$python" -m pip install --quiet --no-index --no-deps --no-compile --no-cache-dir --target "$site" "$wheels"/*.whl
export PYTHONPATH="$site${PYTHONPATH:+:$PYTHONPATH}" PATH="$site/bin:$PATH" HF_HUB_OFFLINE=1
"$python" -c 'import sys, torch, wrapper_ir; print(f"Python {sys.version.split()[0]}, torch {torch.__version__}, {wrapper_ir.__file__}")'
"$python" -m pytest -q "$@"
