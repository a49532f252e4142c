#!/bin/sh
# Internal archives and libxxhash.a -> one archive whose only global names are rowfold_*.
# usage: join_archive.sh LD OBJCOPY AR OUT ARCHIVE...   (libxxhash.a comes last and is used where it exists)
set -eu
ld=$1 objcopy=$2 ar=$3 out=$4
shift 4
# The list is rebuilt in place, one archive a turn, so that paths may hold blanks: all of ours, then what ours need of xxhash.
left=$# whole=1
while [ "$left" -gt 0 ]; do
    archive=$1
    shift
    left=$((left - 1))
    case $archive in
    *libxxhash.a)
        if [ $whole = 1 ]; then set -- "$@" --no-whole-archive; fi
        whole=0
        if [ -f "$archive" ]; then set -- "$@" "$archive"; fi
        ;;
    *) set -- "$@" "$archive" ;;
    esac
done
joined=${out%.a}-joined.o
"$ld" -r -o "$joined" --whole-archive "$@"
"$objcopy" --wildcard --keep-global-symbol='rowfold_*' "$joined"
rm -f "$out"
"$ar" rcs "$out" "$joined"
rm -f "$joined"
