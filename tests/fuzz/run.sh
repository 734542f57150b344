#!/usr/bin/env bash
# Fuzzes: ./run.sh [SECONDS] [TARGET...] builds all targets with coverage on stable Rust and runs each for SECONDS (60),
# as many at a time as there are cores. `cargo test -p memc-fuzz` runs each target without coverage. Coverage comes from LLVM's own pass, so no nightly compiler is needed. A C++ compiler builds libFuzzer.
# Findings and the corpus are in scratch/. To repeat a crash: MEMC_FUZZ=TARGET scratch/fuzz scratch/found/TARGET/FILE.
set -euo pipefail
cd "$(dirname "$0")"
seconds=${1:-60}
shift || true

if ! command -v c++ > /dev/null; then
  echo "installing a C++ compiler, which libFuzzer is built with" >&2
  apt-get -qq update && apt-get -qq -y install g++ > /dev/null
fi

# With a target triple, the flags do not apply to build scripts and procedural macros, which lack libFuzzer's main.
triple=$(rustc -vV | sed -n 's/^host: //p')
flags="--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
-Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
-Cllvm-args=-sanitizer-coverage-trace-compares -Clink-dead-code"
RUSTFLAGS="$flags" cargo build --profile fuzz --locked --features libfuzzer --target "$triple" --target-dir target
built=target/$triple/fuzz
mkdir -p scratch
cp -f "$built/fuzz" scratch/fuzz
[ $# -gt 0 ] && targets=("$@") || mapfile -t targets < <(scratch/fuzz)

# Runs one target; its log and its findings are named after it.
fuzz() {
  local target=$1 seeds=() dictionary=()
  mkdir -p "scratch/corpus/$target" "scratch/found/$target"
  [ -d "seeds/$target" ] && seeds+=("seeds/$target")
  [ "$target" = parse_text ] && seeds+=(../../passes/plan/tests/filetests)
  [ "$target" = read_target ] && seeds+=(../../targets)
  [ -f "seeds/$target.dict" ] && dictionary+=("-dict=seeds/$target.dict")
  local outcome=0
  MEMC_FUZZ=$target scratch/fuzz -max_total_time="$seconds" -max_len=4096 -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 \
    -artifact_prefix="scratch/found/$target/" "${dictionary[@]}" "scratch/corpus/$target" "${seeds[@]}" \
    > "scratch/$target.log" 2>&1 || outcome=$?
  echo "== $target, $seconds s: exit $outcome"
  grep -E 'stat::number_of_executed_units|panicked at|ERROR|SUMMARY' "scratch/$target.log" || true
  return "$outcome"
}
export -f fuzz
export seconds
printf '%s\n' "${targets[@]}" | xargs -P "$(nproc)" -I TARGET bash -c 'fuzz TARGET' || {
  echo "a target found something: scratch/TARGET.log says what, scratch/found/TARGET holds the input" >&2
  exit 1
}
