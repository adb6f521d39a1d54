# Takes the files of a folder out of the page cache: on unified memory CUDA counts it as used. Files stay as they are.
# $1: the folder. $2: `whole`, to drop the whole cache by sudo as well. No input.
# Prints how many files were dropped, whether the whole cache was, and MemFree before and after, in KiB.
free() { sed -n 's/^MemFree: *\([0-9]*\).*/\1/p' /proc/meminfo; }

before=$(free)
if command -v python3 >/dev/null; then
  dropper | timeout -k 1 60 python3 - "$1"
else
  # `nocache` with a count of nothing drops all that is cached of the file.
  printf 'files %s\n' "$(timeout -k 1 60 find -L "$1/" -type f -exec dd if={} iflag=nocache count=0 status=none \; -print | wc -l)"
fi
if [ "$2" = whole ]; then
  timeout -k 1 30 sync
  echo 3 | timeout -k 1 30 sudo -n tee /proc/sys/vm/drop_caches >/dev/null 2>&1 && echo whole
fi
printf 'free %s %s\n' "$before" "$(free)"
