#!/bin/sh
# Checks the GPU of this machine, or says that there is none. Writes results.md and log.txt beside itself.
set -u
cd "$(dirname "$0")" || exit 1
{
  date -u
  uname -srm
  nvidia-smi || echo "no nvidia-smi"
  ./gpucheck.test -test.v -test.timeout 1h -model model -results results.md
} >log.txt 2>&1
status=$?
cat results.md
exit $status
