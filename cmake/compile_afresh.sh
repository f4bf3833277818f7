#!/bin/sh
# compile_afresh.sh <ccache> <compiler> [argument ...]: of a precompiled header, three things that ccache leaves to its user.
# - The old one goes first: GCC would read it, and what two build folders compile would differ by what they had compiled before.
# - It is looked for by the files that it includes (CCACHE_DEPEND). By its preprocessed text, where macros are not, ccache
#   would take one whose macros had other values.
# - The new one gets a checksum of its text with the macros, which ccache hashes in its place (CCACHE_PCH_EXTSUM): its bytes hold
#   addresses and folders, so what was compiled with it in one checkout would not be found from another. (What is found names
#   the other checkout's folder in its debugging information.)

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

# Each part is looked at by itself: a checksum of less than all of the text would stand for more than one header.
write_checksum() ( # write_checksum <header> <compiler> [argument ...]: or none
  header=$1
  shift
  folder=$(printf '%s/' "$CCACHE_BASEDIR" | sed 's/[][\\.*^$|]/\\&/g') &&
    text_of "$@" >"$header.text" &&
    sed "s|$folder||g" "$header.text" >"$header.named" && # by names that are the same in every checkout
    sha256sum <"$header.named" >"$header.sha256" &&
    mv "$header.sha256" "$header.sum"
  rm -f "$header.text" "$header.named" "$header.sha256"
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
    if [ -n "$CCACHE_BASEDIR" ]; then write_checksum "$output" "$@"; fi
    exit 0
    ;;
esac
exec "$@"
