"""Stand-ins for the commands of SLURM: a job is a process of this machine, and a requeued one starts again."""

from __future__ import annotations

from pathlib import Path

_SBATCH = """
cp "$1" "$state/script-$(date +%s%N)"
id=$((100 + $(ls "$state" | grep -c '^script-')))
last=$(sed -n 's/^#SBATCH --array=0-\\([0-9]*\\)%.*/\\1/p' "$1")
for task in $(seq 0 "${last:-0}"); do
  (
    export SLURM_JOB_ID=$id SLURM_PROCID=0 SLURM_LOCALID=0 SLURM_NODEID=0 SLURM_NTASKS=1 SLURM_JOB_NUM_NODES=1
    [ -z "$last" ] || export SLURM_ARRAY_JOB_ID=$id SLURM_ARRAY_TASK_ID=$task
    name=$id${last:+_$task}
    sleep 0.5  # until sbatch has answered and submitit has written what is to be done
    while bash "$1"; [ -e "$state/requeue-$name" ]; do rm "$state/requeue-$name"; done
  ) >/dev/null 2>&1 &
done
echo "Submitted batch job $id"
"""

_SRUN = """
while [ "${1#--}" != "$1" ]; do case $1 in --output | --error) shift 2 ;; *) shift ;; esac; done
echo $$ >"$state/step-$SLURM_JOB_ID${SLURM_ARRAY_TASK_ID:+_$SLURM_ARRAY_TASK_ID}"
exec "$@"
"""

_COMMANDS = {
    "sbatch": _SBATCH,
    "srun": _SRUN,
    "scontrol": 'echo "$@" >>"$state/scontrol.log"; touch "$state/requeue-$2"',
    "scancel": 'kill -TERM "$(cat "$state/step-$1")"',
    "sacct": "echo 'JobID|State|NodeList'",
}


def install_slurm(folder: Path) -> Path:
    """Write the commands into a folder; gives the one in which they keep what happened."""
    state = folder / "state"
    state.mkdir(parents=True)
    for name, text in _COMMANDS.items():
        script = folder / name
        script.write_text(f"#!/usr/bin/env bash\nstate={state}\n{text.strip()}\n")
        script.chmod(0o755)
    return state
