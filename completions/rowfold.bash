# bash completion of rowfold
_rowfold() {
    local word=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]} words='' options=''
    local devices="best host preset:m1max preset:h200 preset:rtx4060 preset:opencl preset:pocl preset:avx512 preset:avx2 preset:neon"
    COMPREPLY=()
    if [ "$COMP_CWORD" = 1 ]; then
        mapfile -t COMPREPLY < <(compgen -W "run plan emit tune bench catalog replay report trials wisdom devices calibrate explain check help --help --version" -- "$word")
        return
    fi
    case $previous in
    --type) words="f64 f32 f16 bf16 f8e4m3 f8e5m2" ;;
    --policy) words="prior service roofline random" ;;
    --device) words=$devices ;;
    --isa) words="avx512 avx2 neon portable" ;;
    --effort) words="estimate recall measure exhaustive" ;;
    --strategy) words="staged random beam exhaustive" ;;
    --regime) words="resident cold" ;;
    --fill) words="uniform normal wide cancel ties special" ;;
    --calibration | --output | -o | --header | --receipt | --store | --out-dir)
        mapfile -t COMPREPLY < <(compgen -f -- "$word")
        return
        ;;
    --figures | --primary) words="device.batch.resident device.batch.cold device.single.resident device.single.cold end_to_end.batch.resident end_to_end.batch.cold end_to_end.single.resident end_to_end.single.cold" ;;
    --peers) words="numpy plain_c onednn torch_eager torch_compile onnxruntime liger quack flashinfer" ;;
    --title | --case | --rounds | --samples | --sample-ms | --warmup-ms | --rotate-mb | --in | --out | --shape | --at | --const | --set | --seed | --pin | --plan | --search | --tune-holds | --budget-candidates | --budget-seconds | --budget-compile-seconds | --threads | --strided | --limit) return ;;
    esac
    if [ -n "$words" ]; then
        mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
        return
    fi
    if [[ $word == -* ]]; then
        case ${COMP_WORDS[1]} in
        run) options="--shape --at --type --const --set --in --out --out-dir --fill --seed --pin --plan --policy --calibration --effort --budget-candidates --budget-seconds --store --no-store --device --isa --threads --strided --alias --summed-budget --quiet --json --help" ;;
        plan) options="--shape --type --const --pin --plan --search --policy --calibration --device --isa --threads --strided --alias --summed-budget --kern --why --limit --quiet --json --help" ;;
        emit) options="--shape --type --const --pin --plan --policy --calibration --effort --budget-candidates --budget-seconds --store --no-store --device --isa --threads --strided --alias --summed-budget --standalone --output --header --receipt --quiet --json --help" ;;
        tune) options="--shape --type --const --seed --pin --plan --search --tune-holds --strategy --audit-pruning --case --regime --policy --calibration --effort --budget-candidates --budget-seconds --budget-compile-seconds --store --no-store --resume --device --isa --threads --strided --alias --summed-budget --receipt --quiet --json --help" ;;
        bench) options="--case --seed --pin --search --policy --effort --budget-candidates --budget-seconds --store --figures --peers --samples --sample-ms --warmup-ms --rotate-mb --device --isa --threads --summed-budget --output --quiet --json --help" ;;
        catalog) options="--case --seed --pin --search --policy --effort --budget-candidates --budget-seconds --store --device --isa --threads --summed-budget --output --quiet --json --help" ;;
        replay) options="--rounds --figures --primary --peers --samples --sample-ms --warmup-ms --rotate-mb --device --isa --threads --output --quiet --json --help" ;;
        report) options="--output --markdown --title --json --help" ;;
        trials) options="--calibration --scores --store --limit --quiet --json --help" ;;
        wisdom) options="--store --isa --threads --output --quiet --json --help" ;;
        devices) options="--isa --json --help" ;;
        calibrate) options="--calibration --trials --store --device --isa --threads --output --quiet --json --help" ;;
        explain) options="--list --json --help" ;;
        check) options="--type --const --json --help" ;;
        esac
        mapfile -t COMPREPLY < <(compgen -W "$options" -- "$word")
        return
    fi
    case ${COMP_WORDS[1]} in
    run | plan | emit | tune | check)
        mapfile -t COMPREPLY < <(
            compgen -f -X '!*.row' -- "$word"
            compgen -d -- "$word"
        )
        ;;
    wisdom)
        mapfile -t COMPREPLY < <(
            if [ "$COMP_CWORD" = 2 ]; then compgen -W "show why export import forget" -- "$word"; else compgen -f -- "$word"; fi
        )
        ;;
    bench)
        mapfile -t COMPREPLY < <(
            compgen -W "smoke prior-12 prior-25-reload prior-25-register llm-20 order" -- "$word"
            compgen -f -X '!*.suite' -- "$word"
        )
        ;;
    catalog)
        mapfile -t COMPREPLY < <(
            if [ "$COMP_CWORD" = 2 ]; then compgen -W "freeze show verify" -- "$word"; else compgen -f -- "$word"; fi
        )
        ;;
    replay | report) mapfile -t COMPREPLY < <(compgen -f -X '!*.json' -- "$word") ;;
    help) mapfile -t COMPREPLY < <(compgen -W "run plan emit tune bench catalog replay report trials wisdom devices calibrate explain check" -- "$word") ;;
    esac
}
complete -o filenames -F _rowfold rowfold
