# bash completion of rowfold
_rowfold() {
    local word=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]} subcommands="run plan emit tune devices explain check"
    COMPREPLY=()
    if [ "$COMP_CWORD" = 1 ]; then
        mapfile -t COMPREPLY < <(compgen -W "$subcommands --help --version" -- "$word")
        return
    fi
    case $previous in
    --type) mapfile -t COMPREPLY < <(compgen -W "f64 f32 f16 bf16 f8e4m3 f8e5m2" -- "$word") && return ;;
    --order) mapfile -t COMPREPLY < <(compgen -W "plan fixed serial" -- "$word") && return ;;
    --policy) mapfile -t COMPREPLY < <(compgen -W "prior service roofline random" -- "$word") && return ;;
    --target) mapfile -t COMPREPLY < <(compgen -W "m1max h200 rtx4060 avx512 avx2 neon" -- "$word") && return ;;
    --shape | --kernel | --device | --pin | --seed | --candidates | --seconds | --in | --out) return ;;
    esac
    if [[ $word == -* ]]; then
        local options="--help --json"
        case ${COMP_WORDS[1]} in
        run) options+=" --shape --type --kernel --device --pin --policy --order --in --out --seed" ;;
        plan | emit) options+=" --shape --type --kernel --device --target --pin --policy --order" ;;
        tune) options+=" --shape --type --kernel --device --pin --policy --order --seed --candidates --seconds" ;;
        esac
        mapfile -t COMPREPLY < <(compgen -W "$options" -- "$word")
        return
    fi
    case ${COMP_WORDS[1]} in
    run | plan | emit | tune | check) mapfile -t COMPREPLY < <(compgen -f -X '!*.row' -- "$word"; compgen -d -- "$word") ;;
    esac
}
complete -o filenames -F _rowfold rowfold
