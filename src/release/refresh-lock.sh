# Says that the holder of the lock lives: DEPLOYMENT.
: > "$HOME/.local/state/sparkctl/$1/lock.beat"
