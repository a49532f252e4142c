#!/usr/bin/env bash
# Genuine records are confirmed by the auditor, and copies that were tampered with refuted: tests/audit/tamper.py has the table.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/tap.sh"
if "$ROWFOLD" help replay >"$scratch/help" 2>&1; then
    mkdir "$scratch/records"
    python3 "$root/tests/audit/tamper.py" "$ROWFOLD" "$ROWFOLD_AUDIT" "$scratch/records"
else
    skip 'records' 'this command keeps none'
    done_testing
fi
