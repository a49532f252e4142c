#!/usr/bin/env bash
# A command that is killed while it compiles: no compiler goes on running, and the next compilation leaves no temporary folder behind.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/tap.sh"
rowfold=${ROWFOLD:-$build/cli/rowfold}
export XDG_DATA_HOME=$scratch/data HOME=$scratch/home ROWFOLD_CACHE=$scratch/cache TMPDIR=$scratch/tmp
mkdir -p "$HOME" "$TMPDIR"

# A compiler that starts another process, as they do, and never ends.
cat >"$scratch/endless" <<E2
#!/bin/sh
case "\$*" in *--version*) exec gcc --version ;; esac
sleep 300 &
echo \$\$ \$! >"$scratch/pids.new"
mv "$scratch/pids.new" "$scratch/pids"
wait
E2
chmod +x "$scratch/endless"

# lives PID: it does, and is no zombie
lives() { [ -r "/proc/$1/stat" ] && ! grep -q ') [ZX] ' "/proc/$1/stat" 2>/dev/null; }

# killed SIGNAL COMMAND...: the command is sent the signal while its compiler runs; then that and its child end
killed() {
    local signal=$1 command pids pid i
    shift
    rm -f "$scratch/pids"
    # a shell's background jobs ignore SIGINT
    ROWFOLD_CC=$scratch/endless env --default-signal=INT,TERM "$rowfold" "$@" >/dev/null 2>&1 &
    command=$!
    for ((i = 0; i < 1000; i++)); do [ -f "$scratch/pids" ] && break; sleep 0.02; done
    read -r -a pids <"$scratch/pids"
    kill -s "$signal" "$command"
    # the first Ctrl-C of a search lets the candidate at hand end; the second ends the command
    if [ "$signal" = INT ] && [ "$1" = tune ]; then sleep 0.5; kill -s INT "$command"; fi
    wait "$command" 2>/dev/null || true
    for pid in "${pids[@]}"; do
        for ((i = 0; i < 500; i++)); do lives "$pid" || break; sleep 0.02; done
        if lives "$pid"; then echo "process $pid goes on after SIG$signal"; return 1; fi
    done
}
folders() { find "$TMPDIR" -mindepth 1 | wc -l; }
swept() {
    "$rowfold" run "$root/kernels/softmax.row" softmax --shape rows=2,n=33 >/dev/null || return 1
    [ "$(folders)" = 0 ] || { find "$TMPDIR"; return 1; }
}

# Asked to end, a command takes with it what it was compiling in; killed, it cannot.
for signal in INT TERM KILL; do
    check "run: SIG$signal ends the compiler" killed $signal run "$root/kernels/softmax.row" softmax --shape rows=2,n=33
    check "tune: SIG$signal ends the compiler of the worker" killed $signal tune "$root/kernels/softmax.row" softmax --shape rows=2,n=33
    ROWFOLD_WORKER='' check "tune without a worker: SIG$signal ends the compiler" killed $signal tune "$root/kernels/softmax.row" softmax --shape rows=2,n=33
    [ $signal = KILL ] || check "SIG$signal leaves no folder behind" test "$(folders)" = 0
done
check "what was being compiled lay in the folder for temporary files" test "$(folders)" -gt 0
check "the next compilation removes it" swept
done_testing
