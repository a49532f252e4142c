#!/bin/sh
# Internal archives and third-party archives -> one archive whose only global names are rowfold_*.
# usage: join_archive.sh LD OBJCOPY AR OUT ARCHIVE...   (the last two: libjansson.a and libxxhash.a, used where they exist)
set -eu
ld=$1 objcopy=$2 ar=$3 out=$4
shift 4
own='' third=''
for a in "$@"; do
    case $a in
    *libjansson.a | *libxxhash.a) if [ -f "$a" ]; then third="$third $a"; fi ;;
    *) own="$own $a" ;;
    esac
done
joined=${out%.a}-joined.o
# shellcheck disable=SC2086  # lists of paths without blanks, made by Meson
"$ld" -r -o "$joined" --whole-archive $own --no-whole-archive $third
"$objcopy" --wildcard --keep-global-symbol='rowfold_*' "$joined"
rm -f "$out"
"$ar" rcs "$out" "$joined"
rm -f "$joined"
