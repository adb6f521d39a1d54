# Prints what is to be known of a node, in sections; reads only.
# $1: how much: status, plan or check. $2: name of the deployment. $3: the model's folder.
# $4: addresses that should answer, with spaces between. $5: `scan`, to look for models; $6...: where else. No input.
# A section begins with a line `=== sparkctl SECTION ===`, whose preceding line break is not the
# section's own. The last section is `end`: without it the answer was cut off.
deployment=$2
model=$3
peers=$4
section() { printf '\n=== sparkctl %s ===\n' "$1"; }
have() { command -v "$1" >/dev/null 2>&1; }

section system
printf 'hostname=%s\n' "$(uname -n)"
printf 'architecture=%s\n' "$(uname -m)"
printf 'kernel=%s\n' "$(uname -r)"
printf 'home=%s\n' "$HOME"
printf 'boot_id=%s\n' "$(cat /proc/sys/kernel/random/boot_id 2>/dev/null)"

section os-release
cat /etc/os-release 2>/dev/null || cat /usr/lib/os-release 2>/dev/null

section meminfo
cat /proc/meminfo 2>/dev/null

section addresses
ip -j addr 2>&1

section rdma
# Device and interface, a pair a line.
for device in /sys/class/infiniband/*; do
  [ -e "$device" ] || continue
  name=${device##*/}
  for net in "$device"/device/net/*; do
    [ -e "$net" ] && printf '%s %s\n' "$name" "${net##*/}"
  done
  for entry in "$device"/ports/*/gid_attrs/ndevs/*; do
    net=$(cat "$entry" 2>/dev/null) && [ -n "$net" ] && printf '%s %s\n' "$name" "$net"
  done
done | sort -u

section ibdev2netdev
have ibdev2netdev && ibdev2netdev 2>/dev/null

section infiniband
[ -e /dev/infiniband ] && echo yes

section gpus
if have nvidia-smi; then
  timeout 20 nvidia-smi --query-gpu=name,driver_version,memory.total,memory.used,utilization.gpu,temperature.gpu \
    --format=csv,noheader,nounits 2>/dev/null
fi

section peers
# Whether the other nodes answer on the fabric: a ping, or a connection that is taken or refused.
for peer in $peers; do
  {
    if ping -c 1 -W 2 "$peer" >/dev/null 2>&1 || python3 -c '
import socket, sys
try:
    socket.create_connection((sys.argv[1], 9), 2)
except ConnectionRefusedError:
    pass' "$peer" 2>/dev/null; then echo "$peer yes"; else echo "$peer no"; fi
  } &
done
wait

section listeners
ss -ltnpH 2>&1 || echo "ss failed"

section tools
for tool in rsync python3; do
  have "$tool" && printf '%s %s\n' "$tool" "$("$tool" --version 2>/dev/null | head -n 1)"
done

section docker-disk
root=$(docker info --format '{{.DockerRootDir}}' 2>/dev/null)
df -B1 --output=size,avail "${root:-/var/lib/docker}" 2>/dev/null | tail -n 1

section model-disk
existing=$model
while [ ! -e "$existing" ] && [ "$existing" != / ] && [ "$existing" != . ]; do
  existing=$(dirname "$existing")
done
df -B1 --output=size,avail "$existing" 2>/dev/null | tail -n 1

section model
if [ -d "$model" ]; then
  echo folder
  section model-files
  # Size, time and name of each file, links followed, with a NUL behind. What is hidden is not the
  # model's: what a cut transfer left, a hub's notes, a repository.
  problems=$(find -L "$model/" -mindepth 1 -name '.*' -prune -o -type f -printf '%s %T@ %P\0' 2>&1 >&3)
  section model-dangling
  find "$model/" -xtype l -printf '%P\0' 2>/dev/null
  section model-outside
  # Links that lead out of the folder: a container that has the folder alone does not have them.
  find "$model/" -mindepth 1 -name '.*' -prune -o -type l -exec sh -c '
    root=$(readlink -f "$0")
    for link; do
      case $(readlink -f "$link") in "$root"/*) ;; *) printf "%s\0" "$link" ;; esac
    done' "$model" {} + 2>/dev/null
  section model-partial
  find "$model/" -path '*/.sparkctl-partial/*' -type f -printf '%s\n' 2>/dev/null
  section model-problems
  printf '%s\n' "$problems"
fi 3>&1

section releases
for folder in "$HOME/.local/state/sparkctl/$deployment/releases"/*/; do
  [ -d "$folder" ] || continue
  folder=${folder%/}
  section "release ${folder##*/}"
  cat "$folder/release.json" 2>&1
done

section kept
# Placed files with their size; secrets by variable, without their values.
for file in "$HOME/.local/state/sparkctl/$deployment/files"/*; do
  [ -f "$file" ] && printf 'files %s %s\n' "${file##*/}" "$(stat -c %s "$file")"
done
for file in "$HOME/.local/state/sparkctl/$deployment/secrets"/*; do
  [ -f "$file" ] || continue
  while read -r name value; do
    [ -n "$value" ] && printf 'secrets %s %s\n' "${file##*/}" "$name"
  done < "$file"
done

section end
