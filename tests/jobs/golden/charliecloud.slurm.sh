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

# In the image; with a Python there, the program's peak memory and time are noted.
forerun_worker='if [ -r "$0" ] && command -v python3 >/dev/null; then exec python3 -I -S "$0" "$@"; fi; shift; exec "$@"'
forerun_program() {
  local -a program=(python train.py --batch 64)
  exec ch-run --bind=/shared/jobs/lenet:/shared/jobs/lenet --bind=/archive:/archive --cd="$PWD" /images/lenet -- sh -c "$forerun_worker" "$forerun_folder/worker.py" "$FORERUN_ATTEMPT" "${program[@]}"
}

# One process of the job: this shell becomes it.
forerun_process() {
  forerun_program
}

# ---- the job ----

forerun_child='' forerun_woken=''

# Cancelled, or about to make room for another: this job does not start itself again.
forerun_stop() {
  forerun_woken=1
  if [[ -z $forerun_child ]]; then exit 143; fi
  kill -TERM "$forerun_child" 2>/dev/null || :
}

# However the job ends, it ends here.
forerun_end() {
  local code=$?
  trap - EXIT
  trap '' USR1 TERM INT ALRM
  set +e
  forerun_note "code $code"
  forerun_note "ended $(forerun_now)"
  exit "$code"
}

export SLURM_EXPORT_ENV=ALL # or what srun starts would get as little as this job has got
forerun_job=$SLURM_JOB_ID
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

# The program's source: fetched and built by the first start.
forerun_source=$forerun_folder/source
(
  flock 9 || :
  if [[ ! -e $forerun_folder/fetched ]]; then
    rm -rf -- "$forerun_source"
    GIT_ALLOW_PROTOCOL=https:ssh GIT_TERMINAL_PROMPT=0 git clone --quiet --depth 1 -- https://example.org/lenet.git "$forerun_source"
    touch "$forerun_folder/fetched"
  fi
) 9>>"$forerun_folder/source.lock"
cd -- "$forerun_source"
(
  flock 9 || :
  if [[ ! -e $forerun_folder/built ]]; then
    ch-run --bind=/shared/jobs/lenet:/shared/jobs/lenet --bind=/archive:/archive --cd="$PWD" /images/lenet -- make
    touch "$forerun_folder/built"
  fi
) 9>>"$forerun_folder/source.lock"

cd -- "$forerun_source"

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
