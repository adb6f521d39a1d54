# Says which kept secrets have the values on standard input: DEPLOYMENT. Prints `FILE NAME` for each that has.
# Only what is built into the shell meets a value: what stands on a command line, everybody on the node can read.
wanted="
$(cat)
"
for file in "$HOME/.local/state/sparkctl/$1/secrets"/*; do
    [ -f "$file" ] || continue
    while read -r name value; do
        case $wanted in *"
$name $value
"*) [ -z "$value" ] || printf '%s %s\n' "${file##*/}" "$name" ;; esac
    done < "$file"
done
