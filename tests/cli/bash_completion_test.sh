# What a real bash completes with the script that the program prints.
set -u
program=$1
eval "$("$program" completion bash)" || exit 1
failed=0

completes() {  # completes "<words with the cursor at their end>" <one that must be there> [<one that must not>]
  local wanted=$2 unwanted=${3-} got
  read -ra COMP_WORDS <<<"$1"
  [[ $1 == *" " ]] && COMP_WORDS+=("")
  COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
  COMPREPLY=()
  _ebbtide
  got=" ${COMPREPLY[*]} "
  if [[ $got != *" $wanted "* || (-n $unwanted && $got == *" $unwanted "*) ]]; then
    echo "'$1' completes to:$got- wanted: $wanted, not: $unwanted"
    failed=1
  fi
}

folder=$(mktemp -d)
cd "$folder" && touch "a report.json" trace.json
completes "ebbtide st" status budget
completes "ebbtide " doctor
completes "ebbtide status --j" --job --budget
completes "ebbtide budget 0 30GiB --" --token-file
completes "ebbtide completion " zsh
completes "ebbtide plan trace.json --minimize " peak --budget
completes "ebbtide plan trace.json --model = p" paper real
completes "ebbtide plan tr" trace.json
completes "ebbtide plan --" --rank
completes "ebbtide curve --w" --wait --points
completes "ebbtide report a" "a report.json"
completes "ebbtide report --out tr" trace.json
rm -r "$folder"
exit $failed
