# Prints a kept file: DEPLOYMENT files|secrets NAME.
exec cat "$HOME/.local/state/sparkctl/$1/$2/$3"
