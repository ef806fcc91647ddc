# Runs what a pod is for, and keeps in the job's folder what it printed and when. It is fixed: what
# differs from job to job are variables and positional arguments, and no shell reads those.
#   stage SOURCE TARGET UID | before COUNT word… | run COUNT word… | after COUNT word…
set -u

now() {
  time=$(date +%s.%N)
  case $time in *[!0-9.]* | *.) time=$(date +%s) ;; esac
  echo "$time"
}

note() {
  if [ -n "$attempt" ]; then printf '%s\n' "$*" >>"$attempt"; fi
}

# first COUNT word…: the first COUNT words as a command.
first() {
  count=$1
  shift
  others=$(($# - count))
  while [ "$count" -gt 0 ]; do
    set -- "$@" "$1"
    shift
    count=$((count - 1))
  done
  shift "$others"
  "$@"
}

# The program, in a process of its own, so that a request to end reaches it while it is waited for.
program() {
  if [ -n "$attempt" ] && [ -r "$FORERUN_FOLDER/worker.py" ] && command -v python3 >/dev/null 2>&1; then
    python3 -I -S "$FORERUN_FOLDER/worker.py" "$attempt" "$@" &
  else
    "$@" &
  fi
  child=$!
  trap 'warned=yes; note "warned $(now)"; kill -TERM "$child" 2>/dev/null' TERM INT
  wait "$child"
  code=$?
  while kill -0 "$child" 2>/dev/null; do
    wait "$child"
    code=$?
  done
  trap - TERM INT
}

# stage SOURCE TARGET UID: a copy that is nobody else's, once. Faster storage is often for all users.
stage() (
  umask 077
  mkdir "$2" 2>/dev/null # or it is there, of an earlier start or of somebody else
  # shellcheck disable=SC2012 # not every image has stat
  ls -ldn "$2" | {
    read -r mode _ owner _
    case $mode in d*) [ "$owner" = "$(id -u)" ] ;; *) false ;; esac
  } || {
    echo "$2: found no directory of user $(id -u), expected a new one, or one of an earlier start" >&2
    return 1
  }
  if [ -e "$2/.forerun-$3" ]; then return 0; fi
  if [ -d "$1" ]; then cp -Rf "$1/." "$2/"; else cp -f "$1" "$2/"; fi && : >"$2/.forerun-$3"
)

finish() {
  note "ended $(now)"
  exit "$1"
}

attempt=
warned=
if [ -n "${FORERUN_OUTPUT:-}" ]; then
  exec >>"$FORERUN_OUTPUT" || exit 73
  if [ -n "${FORERUN_ERRORS:-}" ]; then exec 2>>"$FORERUN_ERRORS" || exit 73; else exec 2>&1; fi
fi
# Of several pods that do one thing together, the first one keeps the times.
if [ -n "${FORERUN_FOLDER:-}" ] && [ "${FORERUN_NODE_RANK:-0}" = 0 ]; then
  mkdir -p "$FORERUN_FOLDER/attempts" || exit 73
  attempt=$FORERUN_FOLDER/attempts/${FORERUN_TASK:+$FORERUN_TASK.}
  number=1
  while [ -e "$attempt$number" ]; do number=$((number + 1)); done
  attempt=$attempt$number
  note "job ${FORERUN_JOB:-}" || exit 73
  note "host ${FORERUN_NODE:-}"
  if [ "${FORERUN_NODES:-1}" = 1 ]; then note "nodes ${FORERUN_NODE:-}"; fi
  note "started $(now)"
fi

code=0
while [ $# -gt 0 ]; do
  kind=$1
  shift
  case $kind in
    stage)
      begun=$(date +%s)
      stage "$1" "$2" "$3" || finish 1
      note "staged $(($(date +%s) - begun))"
      shift 3
      continue
      ;;
    before)
      first "$@" || finish $?
      ;;
    run)
      note "begun $(now)"
      words=$1
      shift
      first "$((words + 1))" program "$@"
      set -- "$words" "$@"
      note "done $(now)"
      note "code $code"
      ;;
    after)
      first "$@" || echo "epilogue: exit code $?" >&2
      ;;
  esac
  count=$1
  shift
  shift "$count"
done
# Whoever was asked to end has not done its work, whatever it says: the job may start again.
if [ -n "$warned" ]; then finish 143; fi
finish "$code"
