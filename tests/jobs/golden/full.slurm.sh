#!/bin/bash
# all-options: a job for Slurm. Read it, keep it, change it.
# Made by forerun 0.1.0 from plan 1a2b3c of lenet.
# Predicted: 5 min, 4 to 6 min.
# forerun uid 0123456789abcdef0123456789abcdef
# shellcheck disable=SC2016,SC2317,SC2329 # single quotes are meant, and traps call functions
#SBATCH --job-name=all-options
#SBATCH --comment=forerun:0123456789abcdef0123456789abcdef
#SBATCH --chdir=/shared/jobs/all-options
#SBATCH --output=/shared/jobs/all-options/train.out.%a
#SBATCH --error=/shared/jobs/all-options/train.err.%a
#SBATCH --open-mode=append
#SBATCH --requeue
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=4
#SBATCH --gres=gpu:2
#SBATCH --mem=16384M
#SBATCH --time=1-01:01:02
#SBATCH --partition=normal
#SBATCH --constraint=mc&ssd
#SBATCH --nodelist=n1
#SBATCH --exclusive
#SBATCH --account=project-1
#SBATCH --qos=high
#SBATCH --array=1,4-8:2%2
#SBATCH --dependency=afterok:41
#SBATCH --begin=2027-01-31T18:00
#SBATCH --mail-user=user@example.org
#SBATCH --mail-type=BEGIN,END,FAIL
#SBATCH --export=EDITOR,LANG

set -euo pipefail

forerun_folder=/shared/jobs/all-options

# Each thing that happens is a line of its own, by one write: what was written outlives a lost node.
forerun_note() {
  printf '%s\n' "$*" >>"$FORERUN_ATTEMPT" || :
}

forerun_now() {
  date +%s.%3N
}

# Bring the data to faster storage, once: where several share a directory, the first one copies.
forerun_stage() (
  source=/archive/images target=/scratch/images
  mark=.forerun-0123456789abcdef0123456789abcdef
  umask 077 # others may share the storage: they see nothing of the data
  mkdir -p -- "${target%/*}/"
  mkdir -- "$target" 2>/dev/null || :
  if [[ ! -d $target || -L $target || ! -O $target ]]; then
    echo "job.sh: found a link, a file or somebody else's directory at $target, expected one of this job's own" >&2
    exit 73
  fi
  {
    flock 9 || :
    if [[ ! -s $target/$mark ]]; then
      if [[ -d $source ]]; then cp -R -- "$source/." "$target/"; else cp -- "$source" "$target/"; fi
      echo staged >&9
    fi
  } 9>>"$target/$mark"
)

# Where the node has a Python, the program's peak memory and time are noted.
forerun_program() {
  local -a program=(./train --name 'it'"'"'s' "--data=${FORERUN_DATA}/train" --rate '$5')
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
  (rm -rf "${FORERUN_DATA}") || echo "job.sh: a command of the epilogue failed" >&2
  forerun_note "code $code"
  forerun_note "ended $(forerun_now)"
  exit "$code"
}

export SLURM_EXPORT_ENV=ALL # or what srun starts would get as little as this job has got
forerun_job=$SLURM_JOB_ID
mapfile -t forerun_hosts < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
forerun_task=$SLURM_ARRAY_TASK_ID.

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

export OMP_NUM_THREADS=4
export GREETING='a "b" $HOME `c`'
export FORERUN_DATA=/scratch/images

# The program's source: fetched and built by the first start.
forerun_source=$forerun_folder/source
(
  flock 9 || :
  if [[ ! -e $forerun_folder/fetched ]]; then
    rm -rf -- "$forerun_source"
    mkdir -- "$forerun_source"
    if command -v curl >/dev/null; then
      curl --fail --silent --show-error --location --globoff --proto '=https' \
        --output "$forerun_source/"train-1.2.tar.gz --url https://example.org/code/train-1.2.tar.gz
    else
      wget --quiet --https-only --output-document="$forerun_source/"train-1.2.tar.gz -- https://example.org/code/train-1.2.tar.gz
    fi
    tar -C "$forerun_source" --no-same-owner -xf "$forerun_source/"train-1.2.tar.gz
    rm -- "$forerun_source/"train-1.2.tar.gz
    touch "$forerun_folder/fetched"
  fi
) 9>>"$forerun_folder/source.lock"
forerun_entries=("$forerun_source"/*)
if [[ ${#forerun_entries[@]} -eq 1 && -d ${forerun_entries[0]} ]]; then
  forerun_source=${forerun_entries[0]}
fi
cd -- "$forerun_source"
(
  flock 9 || :
  if [[ ! -e $forerun_folder/built ]]; then
    make -j 4
    touch "$forerun_folder/built"
  fi
) 9>>"$forerun_folder/source.lock"

cd -- '/shared/my project'

forerun_from=$(forerun_now)
forerun_stage
forerun_note "staged $(awk -v a="$forerun_from" -v b="$(forerun_now)" 'BEGIN { printf "%.3f", b - a }')"

set +u # what others have written, such as `module`, may use variables that are not there
module load cuda
export 'A=b c'
set -u

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
