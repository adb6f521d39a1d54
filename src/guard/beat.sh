# A sign of life to a node's guard: DEPLOYMENT NUMBER. Says what the guard is at: `armed`, `acting`, `acted` or `gone`.
file="$HOME/.local/state/sparkctl/$1/guard/$2"
[ -e "$file.armed" ] && echo "$$" > "$file.beat"
# Again, as it may have decided just now.
if [ -e "$file.armed" ]; then
    echo armed
elif [ -e "$file.acting" ]; then
    echo acting
elif [ -e "${file%/*}/outcome.json" ]; then
    echo acted
else
    echo gone
fi
