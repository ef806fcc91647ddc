#!/bin/bash
# lenet: a job for Slurm. Read it, keep it, change it.
# Made by forerun 0.1.0 from plan 1a2b3c of lenet.
# Predicted: 5 min, 4 to 6 min.
# forerun uid 0123456789abcdef0123456789abcdef
# shellcheck disable=SC2016,SC2317,SC2329 # single quotes are meant, and traps call functions
#SBATCH --job-name=lenet
#SBATCH --comment=forerun:0123456789abcdef0123456789abcdef
#SBATCH --chdir=/shared/jobs/lenet
#SBATCH --output=/shared/jobs/lenet/job.out
#SBATCH --open-mode=append
#SBATCH --requeue
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --time=01:00:00
#SBATCH --signal=B:USR1@120
#SBATCH --export=NONE

set -euo pipefail

forerun_folder=/shared/jobs/lenet

# Each thing that happens is a line of its own, by one write: what was written outlives a lost node.
forerun_note() {
  printf '%s\n' "$*" >>"$FORERUN_ATTEMPT" || :
}

forerun_now() {
  date +%s.%3N
}

# Where the node has a Python, the program's peak memory and time are noted.
forerun_program() {
  local -a program=(python train.py --batch 64)
  if [[ -r $forerun_folder/worker.py ]] && command -v python3 >/dev/null; then
    exec python3 -I -S "$forerun_folder/worker.py" "$FORERUN_ATTEMPT" "${program[@]}"
  fi
  exec "${program[@]}"
}

# One process of the job: this shell becomes it.
forerun_process() {
  forerun_program
}

# ---- the job ----

forerun_child='' forerun_woken=''
forerun_warned='' forerun_stopped=''
forerun_timers=()

# Send a signal to a process after so many seconds.
forerun_later() {
  (
    trap 'kill "$!" 2>/dev/null; exit 0' TERM
    trap '' USR1
    sleep "$1" &
    wait "$!"
    kill "-$2" "$3" 2>/dev/null || :
  ) &
  forerun_timers+=("$!")
}

# Ask the program to save. (In a trap a bare return would have the code of what it interrupted.)
forerun_save() {
  kill -USR1 "$forerun_child" 2>/dev/null || :
}

# The time is nearly over: the program is asked to save and to end, and is made to if it does not.
forerun_warn() {
  forerun_woken=1
  if [[ -n $forerun_warned ]]; then return 0; fi
  forerun_warned=1
  forerun_note "warned $(forerun_now)"
  if [[ -z $forerun_child ]]; then exit 75; fi # it has not begun
  forerun_save
  forerun_later 90 TERM "$forerun_child"
}

# Cancelled, or about to make room for another: this job does not start itself again.
forerun_stop() {
  forerun_woken=1
  if [[ -n $forerun_stopped ]]; then return 0; fi
  forerun_stopped=1
  if [[ -z $forerun_child ]]; then exit 143; fi
  forerun_note "warned $(forerun_now)"
  forerun_save
  forerun_later 20 TERM "$forerun_child"
}

# However the job ends, it ends here.
forerun_end() {
  local code=$?
  trap - EXIT
  trap '' USR1 TERM INT ALRM
  set +e
  if [[ ${#forerun_timers[@]} -gt 0 ]]; then kill "${forerun_timers[@]}" 2>/dev/null; fi
  forerun_note "code $code"
  if [[ -n $forerun_warned && -z $forerun_stopped ]]; then
    local before
    before=$(cat "$forerun_folder/attempts/$forerun_task"* | grep -c '^requeued ')
    if [[ $before -ge 3 ]]; then
      echo "job.sh: out of time, and it may not start again" >&2
    elif scontrol requeue "$forerun_slurm"; then
      forerun_note "requeued $(forerun_now)"
    else
      echo "job.sh: out of time, and the scheduler does not let it start again" >&2
    fi
  fi
  forerun_note "ended $(forerun_now)"
  exit "$code"
}

export SLURM_EXPORT_ENV=ALL # or what srun starts would get as little as this job has got
forerun_job=$SLURM_JOB_ID
forerun_slurm=$SLURM_JOB_ID
mapfile -t forerun_hosts < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
forerun_task=''

# The next number: a start that was cut short has left its file behind.
mkdir -p -- "$forerun_folder/attempts"
forerun_number=1
for forerun_file in "$forerun_folder/attempts/$forerun_task"*; do
  forerun_file=${forerun_file##*/}
  forerun_file=${forerun_file#"$forerun_task"}
  if [[ $forerun_file =~ ^[1-9][0-9]{0,6}$ && $forerun_file -ge $forerun_number ]]; then
    forerun_number=$((forerun_file + 1))
  fi
done
export FORERUN_UID=0123456789abcdef0123456789abcdef
export FORERUN_ATTEMPT=$forerun_folder/attempts/$forerun_task$forerun_number
# A file system may list what was there a while ago: a number is taken by who makes its file.
until (set -C && : >"$FORERUN_ATTEMPT") 2>/dev/null || [[ ! -e $FORERUN_ATTEMPT ]]; do
  forerun_number=$((forerun_number + 1))
  FORERUN_ATTEMPT=$forerun_folder/attempts/$forerun_task$forerun_number
done
forerun_note "job $forerun_job"
forerun_note "nodes ${forerun_hosts[*]}"
forerun_note "host ${SLURMD_NODENAME:-$HOSTNAME}"
forerun_note "started $(forerun_now)"
trap forerun_end EXIT
trap forerun_stop TERM INT
trap forerun_warn USR1

cd -- "$forerun_folder"

forerun_note "begun $(forerun_now)"
forerun_process &
forerun_child=$!
forerun_code=''
while [[ -z $forerun_code ]]; do
  forerun_woken=''
  forerun_code=0
  wait "$forerun_child" || forerun_code=$?
  if [[ -n $forerun_woken ]]; then
    # A signal may have ended the wait, and not the program.
    if kill -0 "$forerun_child" 2>/dev/null; then
      forerun_code=''
    else
      forerun_last=0
      wait "$forerun_child" 2>/dev/null || forerun_last=$?
      if [[ $forerun_last -ne 127 ]]; then forerun_code=$forerun_last; fi
    fi
  fi
done
# It is through: whoever asks it to save or to end from now on comes too late.
trap '' USR1 TERM INT ALRM
forerun_child=''
forerun_note "done $(forerun_now)"
exit "$forerun_code"
