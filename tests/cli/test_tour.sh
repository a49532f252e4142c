#!/usr/bin/env bash
# The documents say what the tree has: every source file stands in the tour, every dimension and refusal of plans in plan.md, every file
# named in a document is there, every command line in one parses, the page of the kernel library is up to date. Each check also fails where it should.
# shellcheck disable=SC2016  # code marks in patterns
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/tap.sh"

# sources_told TREE: every source file of the library is named in the tour by its path.
sources_told() {
    local file bad=0
    while read -r file; do
        grep -qF "\`$file\`" "$1/docs/tour.md" || { echo "$file is not in docs/tour.md"; bad=1; }
    done < <(cd "$1" && find src \( -name '*.c' -o -name '*.h' -o -name '*.def' \) | sort)
    return $bad
}
# files_named TREE: every path in code marks that begins like one of ours exists.
files_named() {
    local name bad=0
    while IFS=: read -r page name; do
        name=${name//\`/}
        [[ $name == *NAME* ]] && continue
        # shellcheck disable=SC2086  # kernels/*.row is a pattern
        compgen -G "$1/$name" >/dev/null || { echo "$page: there is no $name"; bad=1; }
    done < <(cd "$1" && grep -oE '`(src|docs|tests|scripts|kernels|cli|include|examples)/[A-Za-z0-9_./*-]+`' README.md docs/*.md)
    return $bad
}
# dimensions_told TREE: every row of the table of dimensions has one in plan.md, with its words if it has any.
dimensions_told() {
    local name words word row bad=0
    while IFS='|' read -r name words; do
        row=$(grep -F "| $name |" "$1/docs/plan.md" || true)
        [ -n "$row" ] || { echo "dimension $name has no row in docs/plan.md"; bad=1; }
        for word in $words; do
            [ "$word" != off ] || continue # what on does is what there is to say
            grep -qwF -- "$word" <<<"$row" || { echo "dimension $name: its value $word is not explained"; bad=1; }
        done
    done < <(sed -nE -e 's/^DIM\([a-zA-Z_]+, "([^"]+)", [0-9]+, NAME, \(([^)]*)\),.*/\1|\2/p' -e 's/^DIM\([a-zA-Z_]+, "([^"]+)", [0-9]+, LIST,.*/\1|/p' \
        "$1/src/plan/dims.def" | tr -d '",')
    return $bad
}
dimensions_read() { [ "$(grep -c '^DIM(' "$root/src/plan/dims.def")" = "$(sed -nE '/^DIM\([a-zA-Z_]+, "[^"]+", [0-9]+, (NAME|LIST),/p' "$root/src/plan/dims.def" | wc -l)" ]; }
# refusals_told TREE: every slug of plans is in plan.md, and every such slug there is in the table.
refusals_told() {
    diff <(grep -oE '"plan\.[a-z_]+"' "$1/src/base/slugs.def" | tr -d '"' | sort -u) <(grep -oE '`plan\.[a-z_]+`' "$1/docs/plan.md" | tr -d '`' | sort -u)
}

# A copy with only what the checks read, for planting faults.
tree=$scratch/tree
sound() {
    rm -rf "$tree"
    mkdir -p "$tree/scripts"
    cp -r "$root"/{README.md,docs,kernels,src,include,cli,examples} "$tree"
    cp -r "$root/scripts/." "$tree/scripts"
    cp -r "$root/tests" "$tree/tests"
}
# faulty NAME PATTERN SHELL_TEXT COMMAND...
faulty() {
    local name=$1 pattern=$2 fault=$3
    shift 3
    (cd "$tree" && eval "$fault")
    check "$name" exits 1 "$pattern" "$@"
}
sound
check 'the tour names every source file' sources_told "$root"
faulty 'a file that it does not name is found' 'src/ir/lost.c' 'echo "int lost;" >src/ir/lost.c' sources_told "$tree"
check 'files named in documents exist' files_named "$root"
faulty 'a name without a file is found' 'there is no src/ir/gone.c' 'echo "\`src/ir/gone.c\`" >>docs/plan.md' files_named "$tree"
check 'every dimension is read' dimensions_read
check 'plan.md explains every dimension' dimensions_told "$root"
faulty 'a dimension that it lacks is found' 'dimension W has no row' 'sed -i "/^| W |/d" docs/plan.md' dimensions_told "$tree"
faulty 'a value that it lacks is found' 'value welford' 'sed -i "s/welford/other/" docs/plan.md' dimensions_told "$tree"
check 'plan.md has every refusal of plans' refusals_told "$root"
faulty 'a refusal that it lacks is found' 'plan.index_too_narrow' 'sed -i "s/.plan.index_too_narrow.//" docs/plan.md' refusals_told "$tree"
kernels=(python3 "$root/scripts/kernels_doc.py" --check)
check 'kernels.md is up to date' "${kernels[@]}" "$root"
faulty 'a kernel that is not in it is found' 'not up to date' 'printf "\n# Another.\nkernel other for rows (x: in T[rows, n], s: out T[rows]) {\n    s = max(x)\n}\n" >>kernels/reduce.row' \
    "${kernels[@]}" "$tree"
faulty 'a kernel without a comment is found' 'kernel bare has not exactly one comment line' \
    'printf "\nkernel bare for rows (x: in T[rows, n], s: out T[rows]) {\n    s = max(x)\n}\n" >>kernels/reduce.row' "${kernels[@]}" "$tree"

# ---- command lines ----
# Prints the command lines of a document: lines of code blocks that begin with `rowfold ` or `./dev `, and such words in code marks in the text.
command_lines() {
    awk '/^```/ { code = !code; next } code && /^(rowfold|\.\/dev) / { sub(/ *# .*/, ""); print FILENAME ":" $0 }' "$@"
    awk '/^```/ { code = !code; next } !code { print FILENAME ":" $0 }' "$@" | grep -oE '^[^:]*:|`(rowfold|\./dev) [^`]+`' |
        awk '/:$/ { at = $0; next } { gsub(/`/, ""); print at $0 }'
}
if [ -x "${ROWFOLD:-}" ]; then
    for sub in run plan emit tune bench catalog replay report trials wisdom devices calibrate explain check; do "$ROWFOLD" "$sub" --help >"$scratch/help-$sub"; done
    # parses LINE: the subcommand, its options and the files of kernels/ exist, and options that take something have it.
    parses() {
        local words word sub option takes
        read -ra words <<<"$1"
        if [ "${words[0]}" = ./dev ]; then
            "$root/dev" help | grep -qE "^  ${words[1]}( |$)" || { echo "./dev has no ${words[1]}"; return 1; }
            for word in "${words[@]:2}"; do
                [[ $word != --* ]] || "$root/dev" help | grep -E "^  ${words[1]} " | grep -qF -- "$word" || { echo "./dev ${words[1]} has no $word"; return 1; }
            done
            return 0
        fi
        sub=${words[1]}
        if [[ $sub == --help || $sub == --version || $sub == help ]]; then return 0; fi
        [ -f "$scratch/help-$sub" ] || { echo "rowfold has no $sub"; return 1; }
        for ((i = 2; i < ${#words[@]}; i++)); do
            word=${words[i]}
            case $word in
            '...' | '|' | NAME | KERNEL) if [ "$word" = '|' ]; then return 0; fi ;;
            -*)
                option=$(grep -E "^  (-., )?$word( |$)" "$scratch/help-$sub" || grep -E "^  $word, " "$scratch/help-$sub" || true)
                [ -n "$option" ] || { echo "rowfold $sub has no $word"; return 1; }
                takes=$(sed -nE 's/^  (-., )?--[a-z-]+ ([A-Z][A-Z=]*) .*/\2/p' <<<"$option")
                if [ -n "$takes" ]; then
                    i=$((i + 1))
                    [[ $i -lt ${#words[@]} && ${words[i]} != -* ]] || { echo "rowfold $sub $word takes $takes"; return 1; }
                fi
                ;;
            kernels/*) compgen -G "$root/$word" >/dev/null || { echo "there is no $word"; return 1; } ;;
            esac
        done
    }
    all_parse() {
        local line why bad=0 count=0
        while IFS= read -r line; do
            count=$((count + 1))
            why=$(parses "${line#*:}") || { echo "$line: $why"; bad=1; }
        done < <(cd "$1" && command_lines README.md docs/*.md)
        [ "$count" -ge 15 ] || { echo "only $count command lines were found"; bad=1; }
        return $bad
    }
    check 'command lines in documents parse' all_parse "$root"
    sound
    faulty 'an unknown subcommand is found' 'rowfold has no mend' 'echo "Use \`rowfold mend x\` there." >>docs/plan.md' all_parse "$tree"
    faulty 'an unknown option is found' 'rowfold plan has no --wy' 'printf "\140\140\140\nrowfold plan kernels/softmax.row --wy\n\140\140\140\n" >>README.md' all_parse "$tree"
    faulty 'an option without its value is found' 'rowfold tune --shape takes AXES' 'echo "\`rowfold tune kernels/softmax.row --shape\`" >>docs/plan.md' all_parse "$tree"
    faulty 'an unknown command of ./dev is found' './dev has no mend' 'echo "\`./dev mend\`" >>docs/plan.md' all_parse "$tree"

    # What plan.md shows is what the command prints.
    plan_of() { "$ROWFOLD" plan kernels/softmax.row softmax --shape "rows=128,n=$2" --device "preset:$1" --pin "$3" "${@:4}"; }
    cd "$root"
    check 'the worked example is true' exits 0 'stripe slots  *32$' plan_of h200 1000 W=32,V=4,stat=two-pass,hold.x=register,hold.e=recompute
    check 'the refusal is true' exits 4 'need=66 budget=64' plan_of m1max 8193 W=256,V=4,stat=two-pass,hold.x=register,hold.e=register --why
    shows_kern() {
        local shown
        shown=$(awk '/^block \{/ { on = 1 } on && /^```/ { exit } on' docs/plan.md)
        grep -qF "$(head -4 <<<"$shown" | tail -1)" <<<"$shown" && [ "$(wc -l <<<"$shown")" -ge 10 ] || return 1
        plan_of h200 1000 W=32,V=4,stat=two-pass,hold.x=register,hold.e=recompute --kern >"$scratch/kern"
        python3 -c 'import sys; sys.exit(sys.argv[1] not in open(sys.argv[2]).read())' "$shown" "$scratch/kern" || { cat "$scratch/kern"; return 1; }
    }
    check 'the kern shown is what is printed' shows_kern
else
    skip 'command lines in documents parse' 'this build has no command'
fi
done_testing
