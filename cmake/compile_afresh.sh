#!/bin/sh
# compile_afresh.sh <compiler> [argument ...]: without the precompiled header that it is to write. GCC would read an old one, and
# ccache count it in: what two build folders compile would differ by what they had compiled before.
case " $* " in
  *" -x c++-header "*)
    is_output=false
    for argument; do
      if $is_output; then rm -f "$argument"; fi
      if [ "$argument" = -o ]; then is_output=true; else is_output=false; fi
    done
    ;;
esac
exec "$@"
