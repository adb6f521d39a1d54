# Prints what is to be known of a node, in sections; reads only. Commands speak English here: LC_ALL is C.
# $1: how much: status, plan or check. $2: name of the deployment. $3: the model's folder.
# $4: addresses that should answer, with spaces between. $5: `scan`, to look for models; $6...: where else. No input.
# A section may come in several parts. It begins with a line `=== sparkctl SECTION ===`, whose preceding line break is not the
# section's own. The last section is `end`: without it the answer was cut off.
depth=$1 deployment=$2 model=$3 peers=$4 scan=$5
shift 5
current=
section() { current=$1 && printf '\n=== sparkctl %s ===\n' "$1"; }
have() { command -v "$1" >/dev/null 2>&1; }
planning() { [ "$depth" != status ]; }
checking() { [ "$depth" = check ]; }
yes_no() { if "$@"; then echo yes; else echo no; fi; }

# Runs a command that may hang, for at most $1 seconds: what it printed is in $said, its status in $code.
# One that hung fails, and is told as section `gap $2`; the section that it was asked in goes on behind that.
ask() {
  limit=$1 what=$2
  shift 2
  said=$(timeout -k 1 "$limit" "$@")
  code=$?
  case $code in
    124 | 137)
      within=$current
      section "gap $what" && echo "timed-out $limit" && current=
      [ -z "$within" ] || section "$within"
      return 1 ;;
  esac
  return 0
}
say() { printf '%s\n' "$said"; }

machine() {
  section system
  printf 'hostname=%s\n' "$(uname -n)"
  printf 'architecture=%s\n' "$(uname -m)"
  printf 'kernel=%s\n' "$(uname -r)"
  printf 'home=%s\n' "$HOME"
  printf 'boot_id=%s\n' "$(cat /proc/sys/kernel/random/boot_id 2>/dev/null)"
  if checking; then
    printf 'firmware=%s\n' "$(cat /sys/class/dmi/id/bios_version 2>/dev/null)"
    printf 'vendor=%s\n' "$(cat /sys/class/dmi/id/sys_vendor 2>/dev/null)"
    printf 'product=%s\n' "$(cat /sys/class/dmi/id/product_name 2>/dev/null || tr -d '\0' 2>/dev/null </proc/device-tree/model)"
    printf 'uptime=%s\n' "$(cat /proc/uptime 2>/dev/null)"
    printf 'systemd=%s\n' "$(yes_no [ -d /run/systemd/system ])"
    printf 'earlyoom=%s\n' "$(yes_no grep -sqx earlyoom /proc/[0-9]*/comm)"
    printf 'reboot_required=%s\n' "$(yes_no [ -e /run/reboot-required ])"
    printf 'localtime=%s\n' "$(readlink /etc/localtime 2>/dev/null)"
    printf 'cores=%s\n' "$(getconf _NPROCESSORS_ONLN 2>/dev/null)"
  fi
  section os-release
  cat /etc/os-release 2>/dev/null || cat /usr/lib/os-release 2>/dev/null
  section meminfo
  cat /proc/meminfo 2>/dev/null
}

more_of_the_machine() {
  section lscpu
  have lscpu && ask 5 lscpu lscpu 2>/dev/null && say | grep '^ *Model name'
  section timedatectl
  have timedatectl && ask 5 timedatectl timedatectl show 2>/dev/null && say

  section user
  # Names may come from a directory that does not answer.
  name=
  ask 5 user-name id -un 2>/dev/null && name=$said
  printf 'name=%s\n' "$name"
  printf 'uid=%s\n' "$(id -u)"
  ask 5 user-groups id -Gn 2>/dev/null && printf 'groups=%s\n' "$said"
  ask 5 passwd getent passwd "$(id -u)" 2>/dev/null && printf 'shell=%s\n' "${said##*:}"
  [ -d /var/lib/systemd ] && printf 'lingering=%s\n' "$(yes_no [ -e "/var/lib/systemd/linger/$name" ])"
  printf 'memlock=%s\n' "$(ulimit -l 2>/dev/null)"
  if have sudo; then
    # Asks whether a password would be asked for, and does nothing.
    timeout -k 1 5 sudo -n true >/dev/null 2>&1 </dev/null
    printf 'sudo=%s\n' "$(case $? in 0) echo yes ;; 124 | 137) echo unknown ;; *) echo no ;; esac)"
  else
    echo sudo=no
  fi

  section processes
  # The arguments tell what a process is, and stay here: they may hold secrets.
  ps -ww -eo pid=,uid=,etimes=,comm:16=,args= 2>/dev/null | awk '
    !match($0, /^ *[0-9]+ +[0-9]+ +[0-9]+ /) { next }
    { numbers = substr($0, 1, RLENGTH); rest = substr($0, RLENGTH + 1); name = substr(rest, 1, 16); said = substr(rest, 18); kind = "" }
    name !~ /^(python|pt_main|vllm|VLLM|sglang|ray|gcs_server|ollama|llama|trtllm)/ { next }
    said ~ /ray(let|::| start)|gcs_server/ { kind = "ray" }
    said ~ /vllm|VLLM/ { kind = "vllm" }
    said ~ /sglang/ { kind = "sglang" }
    said ~ /ollama (serve|runner)/ { kind = "ollama" }
    said ~ /llama-(server|cli)/ { kind = "llama.cpp" }
    said ~ /trtllm|tensorrt_llm/ { kind = "tensorrt-llm" }
    kind != "" { sub(/ +$/, "", name); split(numbers, n, " "); print n[1], n[2], n[3], kind, name }
    END { print "all" }'

  section toolkit
  have nvidia-ctk && ask 5 nvidia-ctk nvidia-ctk --version 2>/dev/null && say
  section toolkit-config
  cat /etc/nvidia-container-runtime/config.toml 2>/dev/null
  section cdi
  for file in /etc/cdi/*nvidia* /run/cdi/*nvidia*; do
    [ -e "$file" ] && printf '%s\n' "$file"
  done

  for file in /etc/ssh/sshd_config /etc/ssh/sshd_config.d/*.conf; do
    [ -r "$file" ] && section "sshd $file" && cat "$file"
  done
}

network() {
  section addresses
  ip -j addr 2>&1
  section rdma
  # Device and interface, a pair a line.
  found=
  for net in /sys/class/infiniband/*/device/net/*; do
    [ -e "$net" ] || continue
    found=yes device=${net#/sys/class/infiniband/}
    printf '%s %s\n' "${device%%/*}" "${net##*/}"
  done
  section rdma-files
  # Path and contents. One process reads all: a port has 256 entries.
  set -- /sys/class/infiniband/*/ports/*/gid_attrs/ndevs/*
  if planning; then
    set -- "$@" /sys/class/infiniband/*/device/uevent /sys/class/infiniband/*/fw_ver \
      /sys/class/infiniband/*/ports/*/gids/* \
      /sys/class/infiniband/*/ports/*/gid_attrs/types/* /sys/class/infiniband/*/ports/*/state \
      /sys/class/infiniband/*/ports/*/phys_state /sys/class/infiniband/*/ports/*/rate \
      /sys/class/infiniband/*/ports/*/link_layer
  fi
  [ -d /sys/class/infiniband ] && grep -sH . "$@" | grep -v ':0000:0000:0000:0000:0000:0000:0000:0000$'
  section ibdev2netdev
  # Slow, and says no more than the files do where there are any.
  [ -z "$found" ] && have ibdev2netdev && ask 5 ibdev2netdev ibdev2netdev 2>/dev/null && say
  section infiniband
  [ -e /dev/infiniband ] && echo yes
  planning || return 0

  section interfaces
  grep -sH . /sys/class/net/*/uevent /sys/class/net/*/device/uevent /sys/class/net/*/type /sys/class/net/*/speed \
    /sys/class/net/*/address /sys/class/net/*/phys_port_name /sys/class/net/*/phys_switch_id /sys/class/net/*/tun_flags
  section routes
  ip -j -4 route 2>&1
  section listeners
  ss -ltnpH 2>&1 || echo "ss failed"
  section cgroups
  # Which container a process runs in.
  grep -sHom 1 -E '[0-9a-f]{64}' /proc/[0-9]*/cgroup
}

# Whether the other nodes answer on the fabric: a ping, or a connection that is taken or refused. A line
# each: address, yes or no, milliseconds, whether a whole packet passes, and the route to it.
ask_peer() {
  peer=$1 said='' milliseconds=- whole=-
  route=$(ip -j -4 route get "$peer" 2>/dev/null | tr -d '\n')
  if said=$(ping -n -c 1 -W 2 "$peer" 2>/dev/null); then
    answers=yes
    milliseconds=$(printf '%s\n' "$said" | sed -n 's/.*time[=<]\([0-9.]*\).*/\1/p' | head -n 1)
    if checking; then
      device=$(printf '%s\n' "$route" | sed -n 's/.*"dev":"\([^"]*\)".*/\1/p')
      mtu=$(cat "/sys/class/net/$device/mtu" 2>/dev/null) &&
        ping -n -M do -c 2 -i 0.2 -W 1 -s $((mtu - 28)) "$peer" >/dev/null 2>&1
      case $? in 0) whole=yes ;; 1) [ -n "$mtu" ] && whole=no ;; esac
    fi
  elif python3 -c '
import socket, sys
try:
    socket.create_connection((sys.argv[1], 9), 2)
except ConnectionRefusedError:
    pass' "$peer" 2>/dev/null; then
    answers=yes
  else
    answers=no
  fi
  printf '%s %s %s %s %s\n' "$peer" "$answers" "${milliseconds:--}" "$whole" "$route"
}

ask_peers() {
  section peers
  for peer in $peers; do ask_peer "$peer" & done
  wait
}

gpus() {
  section gpus
  have nvidia-smi || { echo absent && return 0; }
  ask 20 nvidia-smi nvidia-smi --format=csv,noheader,nounits \
    --query-gpu=name,driver_version,memory.total,memory.used,utilization.gpu,temperature.gpu 2>&1 && say
}

# The deployment's containers that run and cannot open the GPU any more: a `systemctl daemon-reload` takes it from them.
# What gives no answer is passed over: it says nothing of the GPU.
lost_gpus() {
  section container-gpus
  [ -n "$deployment" ] && have docker && have nvidia-smi || return 0
  for name in $(timeout -k 1 5 docker ps --filter "label=sparkctl.deployment=$deployment" --format '{{.Names}}' 2>/dev/null); do
    said=$(timeout -k 1 5 docker exec "$name" nvidia-smi -L 2>&1)
    case $said in "Failed to initialize NVML"*) printf '%s %s\n' "$name" "$said" | head -n 1 ;; esac
  done
}

more_of_the_gpus() {
  section nvidia-module
  cat /sys/module/nvidia/version 2>/dev/null
  section gpu-caps
  # What is set at each boot, so that it is known while the GPU idles.
  grep -sHE 'nvidia-smi.* (-lgc|--lock-gpu-clocks|-ac|--applications-clocks|-pl|--power-limit)[ =]' \
    /etc/systemd/system/*.wants/*.service /etc/rc.local /etc/crontab /etc/cron.d/*
  have nvidia-smi || return 0
  section nvidia-version
  ask 10 nvidia-version nvidia-smi --version 2>&1 && say
  section gpu-processes
  ask 10 gpu-processes nvidia-smi --query-compute-apps=pid,used_memory,process_name \
    --format=csv,noheader,nounits 2>/dev/null && [ $code = 0 ] && say && echo all
  section gpu-details
  # The last field has another name in older drivers; an unknown one is refused at once.
  fields=uuid,pci.bus_id,power.draw,power.limit,clocks.sm,clocks.max.sm,persistence_mode
  for reasons in ,clocks_event_reasons.active ,clocks_throttle_reasons.active ''; do
    ask 10 gpu-details nvidia-smi --query-gpu="$fields$reasons" --format=csv,noheader,nounits 2>/dev/null || break
    [ $code = 0 ] && say && break
  done
  section gpu-board
  ask 10 gpu-board nvidia-smi --query-gpu=vbios_version,power.default_limit --format=csv,noheader,nounits 2>/dev/null &&
    [ $code = 0 ] && say
}

disks() {
  section docker-disk
  said=
  have docker && ask 10 docker-root docker info --format '{{.DockerRootDir}}' 2>/dev/null
  ask 10 docker-disk df -B1 --output=size,avail "${said:-/var/lib/docker}" 2>/dev/null && say
  section tools
  for tool in rsync python3; do
    have "$tool" && printf '%s %s\n' "$tool" "$("$tool" --version 2>/dev/null | head -n 1)"
  done
}

model_folder() {
  section model-disk
  existing=$model
  while [ ! -e "$existing" ] && [ "$existing" != / ] && [ "$existing" != . ]; do
    existing=$(dirname "$existing")
  done
  df -B1 --output=size,avail "$existing" 2>/dev/null
  section model
  [ -d "$model" ] || return 0
  echo folder
  section model-files
  # Size, time and name of each file, links followed, with a NUL behind. What is hidden is not the
  # model's: what a cut transfer left, a hub's notes, a repository.
  problems=$(find -L "$model/" -mindepth 1 -name '.*' -prune -o -type f -printf '%s %T@ %P\0' 2>&1 >&3)
  section model-dangling
  find "$model/" -xtype l -printf '%P\0' 2>/dev/null
  section model-outside
  # Links that lead out of what the container gets: the folder, or all that a hub's cache has of the model.
  case $model in
    */models--*/snapshots/*) whole=$model/../.. ;;
    *) whole=$model ;;
  esac
  find "$model/" -mindepth 1 -name '.*' -prune -o -type l -exec sh -c '
    root=$(readlink -f "$0")
    for link; do
      case $(readlink -f "$link") in "$root"/*) ;; *) printf "%s\0" "$link" ;; esac
    done' "$whole" {} + 2>/dev/null
  section model-partial
  case ${model%/} in
    */models--*/snapshots/*) notes=${model%/snapshots/*}/.sparkctl/$(basename "$model") ;;
    *) notes=${model%/}/.sparkctl ;;
  esac
  find "$notes/incoming" -type f -printf '%s\n' 2>/dev/null
  section model-problems
  printf '%s\n' "$problems"
  section model-content
  have python3 && ask 30 model-content python3 -c "$(model_reader)" "$model" 2>&1 && say
} 3>&1

ask_model() {
  [ -n "$model" ] || return 0
  # The first look at a file system whose server is gone never returns; it may, the others may not.
  ask 10 model test -e "$model" && model_folder
}

look_for_models() {
  [ "$scan" = scan ] || return 0
  section models
  have python3 && ask 30 models python3 -c "$(model_scanner)" "$@" 2>&1 && say
}

releases() {
  section releases
  [ -n "$deployment" ] || return 0
  for folder in "$HOME/.local/state/sparkctl/$deployment/releases"/*/; do
    [ -d "$folder" ] || continue
    folder=${folder%/}
    section "release ${folder##*/}"
    cat "$folder/release.json" 2>&1
  done
}

operations() {
  # Who holds the node's lock, as `lock.sh` says it: the beginning of its token, and words. A beat that is old is a dead
  # holder's, whoever has its process's number now.
  section holder
  for lock in /run/lock/sparkctl /tmp/sparkctl; do
    for file in "$lock"/holder.*; do
      [ -r "$file" ] || continue
      { read -r pid && read -r token && read -r holder; } < "$file" || continue
      [ -d "/proc/$pid" ] || continue
      beat=$lock/beat.${file##*.}
      age=$(($(date +%s) - $(stat -c %Y "$beat" 2>/dev/null || echo 0)))
      [ "$age" -le 20 ] || continue
      step=$(cat "$beat" 2>/dev/null)
      printf '%.12s %s\n' "$token" "$holder${step:+, at $step}"
    done
  done
  section journal
  [ -n "$deployment" ] || return 0
  tail -n 80 "$HOME/.local/state/sparkctl/$deployment/journal" 2>/dev/null
}

kept() {
  section kept
  [ -n "$deployment" ] || return 0
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
}

# What takes long runs beside the rest: each part of a pipeline works at once, and its lines wait in the
# pipe until the part behind it has printed its own. No two print at the same time, and nothing is
# written to a disk. None may read: its standard input is the lines of the part before.
section clock
date -u +%s.%N
current=
ask_peers </dev/null | {
  lost_gpus </dev/null | {
    gpus </dev/null | {
      { checking && more_of_the_gpus; } </dev/null | {
        { planning && disks; } </dev/null | {
          { planning && ask_model; } </dev/null | {
            look_for_models "$@" </dev/null | {
              { checking && more_of_the_machine; } </dev/null | {
                { machine; network; releases; operations; kept; } </dev/null
                cat
              }
              cat
            }
            cat
          }
          cat
        }
        cat
      }
      cat
    }
    cat
  }
  cat
}
section clock-end
date -u +%s.%N
section end
