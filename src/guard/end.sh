# Ends a node's guard, unless it has decided: DEPLOYMENT NUMBER, or `any` for whichever there is. Whoever renames its file
# first has decided. Says `ended`, `acting`, `acted`, or `gone` where there was none.
folder="$HOME/.local/state/sparkctl/$1/guard"
[ "$2" = any ] && set -- "$1" '*'
said=gone
[ -e "$folder/outcome.json" ] && said=acted
for file in "$folder"/$2.armed; do
    [ -e "$file" ] && mv "$file" "${file%.armed}.ended" 2> /dev/null && said=ended && rm -f "${file%.armed}".*
done
for file in "$folder"/$2.acting; do
    [ -e "$file" ] && said=acting
done
echo "$said"
