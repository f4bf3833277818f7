#!/bin/sh
# compile_afresh.sh <ccache> <compiler> [argument ...]: of a precompiled header, three things that ccache leaves to its user.
# - The old one goes first: GCC would read it, and what two build folders compile would differ by what they had compiled before.
# - It is looked for by the files that it includes (CCACHE_DEPEND). By its preprocessed text, where macros are not, ccache
#   would take one whose macros had other values.
# - The new one gets a checksum of its text with the macros, which ccache hashes in its place (CCACHE_PCH_EXTSUM): its bytes hold
#   addresses and folders, so what was compiled with it in one checkout would not be found from another.

text_of() ( # text_of <compiler> [argument ...]: what it reads
  skip=false
  for argument; do # sees them as they were at first
    shift
    if $skip; then
      skip=false
      continue
    fi
    case $argument in
      -o | -MF | -MT) skip=true ;;
      -MD | -c) ;;
      *) set -- "$@" "$argument" ;;
    esac
  done
  "$@" -E -P -dD # with the macros, which its readers use
)

case " $* " in
  *" -x c++-header "*)
    is_output=false
    output=
    for argument; do
      if $is_output; then output=$argument; fi
      if [ "$argument" = -o ]; then is_output=true; else is_output=false; fi
    done
    rm -f "$output" "$output.sum"
    CCACHE_DEPEND=1 "$@" || exit
    shift
    if [ -n "$CCACHE_BASEDIR" ] && text_of "$@" >"$output.text"; then
      # By names that are the same in every checkout.
      sed "s|$CCACHE_BASEDIR/||g" "$output.text" | sha256sum >"$output.sum"
    fi
    rm -f "$output.text"
    exit 0
    ;;
esac
exec "$@"
